import type { Warning } from '#core/domain/fault/warning.ts';

/** What is known of a parsed part of a request besides its value. */
export type ParsedInput = {
  /** The known fields alone, as the client sent them, in one spelling. */
  readonly sent: unknown;
  readonly warnings: readonly Warning[];
};

/** By parsed value, from parsing until the answer: fastify's validators return nothing but the value. */
const parsed = new WeakMap<object, ParsedInput>();

export function rememberInput(value: object, input: ParsedInput): void {
  parsed.set(value, input);
}

/** Returns what is known of the value. A value that nobody parsed was sent as it is. */
export function inputOf(value: unknown): ParsedInput {
  const known = typeof value === 'object' && value !== null ? parsed.get(value) : undefined;
  return known ?? { sent: value, warnings: [] };
}
