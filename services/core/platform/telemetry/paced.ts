/** What is read takes this part of the time at most. */
const READING_PART = 50;

/**
 * The same reading, not repeated before fifty times as long as it took: until then its last answer is given, or its failure. What a
 * scrape asks for is then no load, however long it takes and however often it is asked for.
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
