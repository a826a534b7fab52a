import { DependencyError, type Dependency } from '#core/domain/fault/dependency-error.ts';

/**
 * Waits for the work, but at most this long; then returns or throws what `late` does. For work that cannot be aborted: it
 * continues, and its later result is ignored.
 */
export function within<T, L = T>(work: PromiseLike<T>, milliseconds: number, late: () => L): Promise<T | L> {
  // One promise and one timer: Promise.race would create three more per call.
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

/**
 * Waits for a call to a dependency.
 * @throws DependencyError `deadline` if the time passes first.
 */
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
  /** Aborts this signal too, with the parent's reason. */
  readonly parent?: AbortSignal;
  /** Returns the signal's reason when the time has passed. Default: the platform's `AbortError`. */
  readonly reason?: () => Error;
};

/**
 * A signal with a timer, for work that can be aborted. Dispose of it when the work has ended. A class because each message's call
 * has one: closures would double its cost.
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

  /** Restarts the timer, after a sign of life. */
  restart(): void {
    this.#timer.refresh();
  }

  /** Stops the timer; only the parent can abort the signal from now on. */
  lift(): void {
    clearTimeout(this.#timer);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    if (this.#follow !== undefined) this.#parent?.removeEventListener('abort', this.#follow);
  }
}

const NO_OPTIONS: DeadlineOptions = {};
