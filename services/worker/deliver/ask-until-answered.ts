export type AskUntilAnsweredDeps = {
  /** The database did not answer; it is asked again. */
  readonly onFailure: (error: unknown, rows: number) => void;
  readonly signal: AbortSignal;
};

const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 5_000;

/**
 * Asks the database until it answers, with a backoff of 50 ms to 5 s: the calls that need the answer have ended, and are to be
 * recorded.
 * @param rows how many of these wait.
 * @throws what the database throws, once `signal` has fired.
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
