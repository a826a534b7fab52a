export type AskUntilAnsweredDeps = {
  /** Called when the database did not answer, before the retry. */
  readonly onFailure: (error: unknown, rows: number) => void;
  readonly signal: AbortSignal;
};

const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 5_000;

/**
 * Queries the database until it answers, with a backoff of 50 ms to 5 s: the calls that need the answer have ended, and their
 * outcomes must be recorded.
 * @param rows number of calls that wait for the answer, for `onFailure`.
 * @throws the database's error, once `signal` is aborted.
 */
export async function askUntilAnswered<T>(
  ask: () => Promise<T>,
  rows: number,
  { onFailure, signal }: AskUntilAnsweredDeps,
): Promise<T> {
  for (let delayMs = RETRY_MS_MIN; ; delayMs = Math.min(delayMs * 2, RETRY_MS_MAX)) {
    try {
      return await ask();
    } catch (error) {
      onFailure(error, rows);
      if (signal.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
  }
}
