import type { MonotonicClock } from '#core/domain/clock.ts';
import { createDutyCycle } from '#core/domain/queue/duty-cycle.ts';

/** In milliseconds, so that a gauge is back soon after an outage, in which each read takes as long as its timeout. */
const FAILURE_KEPT_MS_MAX = 60_000;

/**
 * Returns a `read` that repeats at the earliest after fifty times its own duration, and after a failure within a minute. Until
 * then it returns the last result or failure, so that scrapes cause no load, however slow the read is and however often they ask.
 */
export function paced<T>(
  read: () => Promise<T>,
  monotonicMs: MonotonicClock = () => performance.now(),
): () => Promise<T> {
  const cycle = createDutyCycle(monotonicMs);
  let last: Promise<T> | undefined;
  let isReading = false;
  let failureKeptUntil = Number.POSITIVE_INFINITY;

  async function readNow(): Promise<T> {
    isReading = true;
    failureKeptUntil = Number.POSITIVE_INFINITY;
    cycle.begun();
    try {
      return await read();
    } catch (error) {
      failureKeptUntil = monotonicMs() + FAILURE_KEPT_MS_MAX;
      throw error;
    } finally {
      cycle.ended();
      isReading = false;
    }
  }

  return () => {
    if (last === undefined || (!isReading && (cycle.isDue() || monotonicMs() >= failureKeptUntil)))
      last = readNow();
    return last;
  };
}
