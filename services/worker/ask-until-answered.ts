import { pause } from '#core/platform/process/pause.ts';

export type AskUntilAnsweredDeps = {
  /** Called when the database did not answer: the first time, and then at most every five seconds. */
  readonly onFailure: (error: unknown, rows: number) => void;
  /** Aborted when the worker gives up: the database is asked once more, at once. */
  readonly signal: AbortSignal;
};

const RETRY_MS_MIN = 50;
/**
 * Less than other workers wait once the database is back, until they find the lease over and repeat the call
 * (`AMBIGUOUS_RETRY_MS`): the answer that this worker holds is stored before that.
 */
const RETRY_MS_MAX = 500;
const REPORT_EVERY_MS = 5_000;

/**
 * Queries the database until it answers, with a backoff of 50 to 500 ms: the calls that need the answer have ended, and their
 * outcomes must be recorded.
 * @param rows number of calls that wait for the answer, for `onFailure`.
 * @param isFinal whether an error is an answer that a repetition would not change. Default: no error is.
 * @throws the database's error, if it is final or once `signal` is aborted.
 */
export async function askUntilAnswered<T>(
  ask: () => Promise<T>,
  rows: number,
  { onFailure, signal }: AskUntilAnsweredDeps,
  isFinal: (error: unknown) => boolean = () => false,
): Promise<T> {
  let reportedAt = Number.NEGATIVE_INFINITY;
  for (let delayMs = RETRY_MS_MIN; ; delayMs = Math.min(delayMs * 2, RETRY_MS_MAX)) {
    try {
      return await ask();
    } catch (error) {
      if (isFinal(error)) throw error;
      if (performance.now() - reportedAt >= REPORT_EVERY_MS) {
        reportedAt = performance.now();
        onFailure(error, rows);
      }
      if (signal.aborted) throw error;
      await pause(delayMs, signal);
    }
  }
}
