import { DependencyError, type Dependency } from '#core/domain/dependency-error.ts';

/**
 * Waits for the work, but no longer than this; then for what `late` gives or throws. For work that nothing can end: it goes
 * on, and how it ends later is not heard of.
 */
export function within<T, L = T>(work: PromiseLike<T>, milliseconds: number, late: () => L): Promise<T | L> {
  // One promise and one timer: a race would make three more of each call.
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    }, milliseconds);
    work.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** The same for a call to a dependency. @throws DependencyError `deadline` where the time is over first. */
export function answerWithin<T>(
  dependency: Dependency,
  work: PromiseLike<T>,
  milliseconds: number,
): Promise<T> {
  return within<T, never>(work, milliseconds, () => {
    throw new DependencyError(
      dependency,
      'deadline',
      `${dependency} gave no answer within ${milliseconds} ms`,
    );
  });
}

export type DeadlineOptions = {
  /** Ends it as well, with its own reason. */
  readonly parent?: AbortSignal;
  /** The signal's reason when the time is over. Default: the platform's `AbortError`. */
  readonly reason?: () => Error;
};

/**
 * A signal with a clock, for work that can be ended. Dispose of it when the work has ended. A class, as each message's call
 * has one: functions of its own would double what it costs.
 */
export class Deadline implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #parent: AbortSignal | undefined;
  readonly #follow: (() => void) | undefined;

  constructor(milliseconds: number, { parent, reason }: DeadlineOptions = NO_OPTIONS) {
    const controller = this.#controller;
    this.#timer = setTimeout(() => controller.abort(reason?.()), milliseconds);
    if (parent === undefined) return;
    this.#parent = parent;
    this.#follow = () => {
      this.lift();
      controller.abort(parent.reason);
    };
    parent.addEventListener('abort', this.#follow);
    if (parent.aborted) this.#follow();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Begins the time anew, after a sign of life. */
  restart(): void {
    this.#timer.refresh();
  }

  /** From now on there is no end but the parent's. */
  lift(): void {
    clearTimeout(this.#timer);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    if (this.#follow !== undefined) this.#parent?.removeEventListener('abort', this.#follow);
  }
}

const NO_OPTIONS: DeadlineOptions = {};
