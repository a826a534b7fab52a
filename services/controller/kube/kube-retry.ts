import { isAway } from '#core/domain/fault/dependency-error.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import type { Rate, TokenBucket } from './token-bucket.ts';
import { aborted, KubeError, unanswered } from './kube-error.ts';
import { pause, backoffMs } from '#core/platform/process/pause.ts';

/**
 * Rate limit of all retries of a process; first attempts are not limited. A server that is down gets only a few requests.
 */
export const REPEATS: Rate = { burst: 20, perSecond: 2 };

export type RetryOptions = {
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
  readonly attemptMs: number;
  /** The call is idempotent. */
  readonly isRepeatable: boolean;
  /** The token bucket of the retries. */
  readonly budget: Pick<TokenBucket, 'tryTake'>;
};

const TRIES_MAX = 6;

/**
 * Runs attempts until one succeeds, one fails permanently, or the deadline would pass before the next. Each attempt gets a signal
 * with its timeout.
 * @throws the last attempt's error
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

/** Follows the parent signal, and aborts with a `Timeout` after the given time. */
export function answerDeadline(milliseconds: number, parent: AbortSignal): Deadline {
  const reason = (): Error => unanswered('Timeout', 'The API server did not answer in time');
  return new Deadline(milliseconds, { parent, reason });
}

function mayRepeat(error: KubeError, isRepeatable: boolean): boolean {
  // The server did not start to execute the call.
  if (error.code === 429) return true;
  if (error.code >= 500) return isRepeatable || error.retryAfterMs !== undefined;
  return isRepeatable && isAway(error);
}
