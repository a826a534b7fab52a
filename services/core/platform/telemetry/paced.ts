/** Reads take at most this part of the time. */
const READING_PART = 50;

/**
 * Returns a `read` that repeats at the earliest after fifty times its own duration. Until then it returns the last result or
 * failure, so that scrapes cause no load, however slow the read is and however often they ask.
 */
export function paced<T>(
  read: () => Promise<T>,
  now: () => number = () => performance.now(),
): () => Promise<T> {
  let last: Promise<T> | undefined;
  let nextAt = -Infinity;

  async function readNow(): Promise<T> {
    const begunAt = now();
    nextAt = Infinity;
    try {
      return await read();
    } finally {
      nextAt = now() + READING_PART * (now() - begunAt);
    }
  }

  return () => {
    if (last === undefined || now() >= nextAt) last = readNow();
    return last;
  };
}
