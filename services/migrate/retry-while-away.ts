import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { retryPauseMs } from './retry-pause.ts';

/** As long as a migration waits for its locks. */
const WAIT_MS_MAX = 600_000;

export type AwayRetry = {
  readonly error: unknown;
  /** Number of tries so far, from 1. */
  readonly tries: number;
  readonly nextTryMs: number;
};

/**
 * Repeats idempotent work while the database is unavailable, for ten minutes at most: a Job of a release may start before its
 * database, and nobody starts it again.
 * @throws the last error of `work`; one that is not about availability at once.
 */
export async function retryWhileAway<T>(
  work: () => Promise<T>,
  onRetry: (retry: AwayRetry) => void,
): Promise<T> {
  const started = performance.now();
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const nextTryMs = retryPauseMs(tries);
      const isLate = performance.now() - started + nextTryMs > WAIT_MS_MAX;
      if (isLate || databaseFaultOf(error) !== 'away') throw error;
      onRetry({ error, tries, nextTryMs });
      await new Promise((resolve) => setTimeout(resolve, nextTryMs));
    }
  }
}
