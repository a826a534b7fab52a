import { inspect } from 'node:util';

const PRINTED = '[secret]';

/** Wraps a secret so that printing, logging or serializing it shows `[secret]`; only `reveal()` returns it. */
export class Secret<T = string> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  reveal(): T {
    return this.#value;
  }

  toString(): string {
    return PRINTED;
  }

  toJSON(): string {
    return PRINTED;
  }

  [inspect.custom](): string {
    return PRINTED;
  }
}

export function secret<T>(value: T): Secret<T> {
  return new Secret(value);
}
