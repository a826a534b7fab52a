import { setTimeout as delay } from 'node:timers/promises';

const LOOK_MS = 250;

/**
 * Polls until the answer is not undefined; a poll that throws is repeated too.
 * @throws Error with what was waited for, and the last error.
 */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined>,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  let fault: unknown;
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== undefined) return answer;
      fault = undefined;
    } catch (error) {
      fault = error;
    }
    if (Date.now() > deadline) {
      throw new Error(`not within ${timeoutMs / 1_000} s: ${what}`, { cause: fault });
    }
    await delay(LOOK_MS);
  }
}
