import { isAway } from '#core/domain/dependency-error.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import type { Rate, TokenBucket } from '../token-bucket.ts';
import { aborted, KubeError, unanswered } from './kube-error.ts';
import { pause, backoffMs } from '#core/platform/process/pause.ts';

/** Repeats of all calls of a process; first tries are free. A server that is down gets no more than a trickle. */
export const REPEATS: Rate = { burst: 20, perSecond: 2 };

export type RetryOptions = {
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
  readonly attemptMs: number;
  /** Doing it twice has the effect of doing it once. */
  readonly isRepeatable: boolean;
  /** Repeats are taken from it. */
  readonly budget: Pick<TokenBucket, 'tryTake'>;
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
      using limit = answerDeadline(Math.min(attemptMs, deadline - performance.now()), signal);
      return await attempt(limit.signal);
    } catch (error) {
      if (!(error instanceof KubeError) || !mayRepeat(error, isRepeatable)) throw error;
      const delayMs = Math.max(backoffMs(tries), error.retryAfterMs ?? 0);
      const isLate = performance.now() + delayMs >= deadline;
      if (tries === TRIES_MAX || isLate || signal.aborted || !budget.tryTake()) throw error;
      await pause(delayMs, signal);
      if (signal.aborted) throw aborted(signal.reason);
    }
  }
}

/** Follows the signal, and aborts with a `Timeout` when the time is over. */
export function answerDeadline(milliseconds: number, parent: AbortSignal): Deadline {
  const reason = (): Error => unanswered('Timeout', 'The API server did not answer in time');
  return new Deadline(milliseconds, { parent, reason });
}

function mayRepeat(error: KubeError, isRepeatable: boolean): boolean {
  // The server did not begin it.
  if (error.code === 429) return true;
  if (error.code >= 500) return isRepeatable || error.retryAfterMs !== undefined;
  return isRepeatable && isAway(error);
}
