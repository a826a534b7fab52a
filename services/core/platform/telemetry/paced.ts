import { createDutyCycle } from '#core/domain/queue/duty-cycle.ts';

/**
 * Returns a `read` that repeats at the earliest after fifty times its own duration. Until then it returns the last result or
 * failure, so that scrapes cause no load, however slow the read is and however often they ask.
 */
export function paced<T>(
  read: () => Promise<T>,
  now: () => number = () => performance.now(),
): () => Promise<T> {
  const cycle = createDutyCycle(now);
  let last: Promise<T> | undefined;
  let isReading = false;

  async function readNow(): Promise<T> {
    isReading = true;
    cycle.begun();
    try {
      return await read();
    } finally {
      cycle.ended();
      isReading = false;
    }
  }

  return () => {
    if (last === undefined || (!isReading && cycle.isDue())) last = readNow();
    return last;
  };
}
