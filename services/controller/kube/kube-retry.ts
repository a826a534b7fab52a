import { KubeError } from './kube-error.ts';
import { pause, backoffMs } from '#core/platform/process/pause.ts';

/** How many calls of a process may be repeated: a server that is down gets no more than a trickle. */
export type RetryBudget = { readonly take: () => boolean };

/** A bucket that only repeats draw from; first tries are free. */
export function createRetryBudget({ burst = 20, perSecond = 2 } = {}): RetryBudget {
  let tokens = burst;
  let filledAt = performance.now();
  return {
    take() {
      const now = performance.now();
      tokens = Math.min(burst, tokens + ((now - filledAt) / 1_000) * perSecond);
      filledAt = now;
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
  };
}

export type RetryOptions = {
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
  readonly attemptMs: number;
  /** Doing it twice has the effect of doing it once. */
  readonly isRepeatable: boolean;
  readonly budget: RetryBudget;
};

const TRIES_MAX = 6;

/**
 * Runs one try after the other until one succeeds, fails for good, or the deadline would pass before the next. Each try
 * gets a signal that ends it in time. @throws the last try's error
 */
export async function withRetries<T>(
  attempt: (signal: AbortSignal) => Promise<T>,
  { signal, deadlineMs, attemptMs, isRepeatable, budget }: RetryOptions,
): Promise<T> {
  const deadline = performance.now() + deadlineMs;
  for (let tries = 1; ; tries += 1) {
    try {
      using limit = limited(signal, Math.min(attemptMs, deadline - performance.now()));
      return await attempt(limit.signal);
    } catch (error) {
      if (!(error instanceof KubeError) || !mayRepeat(error, isRepeatable)) throw error;
      const delayMs = Math.max(backoffMs(tries), error.retryAfterMs ?? 0);
      const isLate = performance.now() + delayMs >= deadline;
      if (tries === TRIES_MAX || isLate || signal.aborted || !budget.take()) throw error;
      await pause(delayMs, signal);
      if (signal.aborted) throw aborted(signal);
    }
  }
}

/** A signal that follows another one and aborts with a `Timeout` when the time is over. */
export function limited(
  signal: AbortSignal,
  milliseconds: number,
): Disposable & { readonly signal: AbortSignal; readonly lift: () => void } {
  const controller = new AbortController();
  const follow = (): void => controller.abort(aborted(signal));
  const timer = setTimeout(
    () =>
      controller.abort(
        new KubeError({ code: 0, reason: 'Timeout', message: 'The API server did not answer in time' }),
      ),
    milliseconds,
  );
  signal.addEventListener('abort', follow);
  if (signal.aborted) follow();
  return {
    signal: controller.signal,
    lift: () => clearTimeout(timer),
    [Symbol.dispose]() {
      clearTimeout(timer);
      signal.removeEventListener('abort', follow);
    },
  };
}

function aborted(signal: AbortSignal): KubeError {
  return new KubeError(
    { code: 0, reason: 'Aborted', message: 'The call was ended' },
    { cause: signal.reason },
  );
}

function mayRepeat(error: KubeError, isRepeatable: boolean): boolean {
  // The server did not begin it.
  if (error.code === 429) return true;
  if (error.code >= 500) return isRepeatable || error.retryAfterMs !== undefined;
  return isRepeatable && (error.reason === 'Network' || error.reason === 'Timeout');
}
