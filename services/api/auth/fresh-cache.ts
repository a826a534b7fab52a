import { LRUCache } from 'lru-cache';

/** Longest time that a copy is used without asking again, in milliseconds. */
// Tests break this (mutant: fresh-copies): a revoked key is refused after five seconds even if its notice is lost.
const FRESH_MS = 5_000;

/**
 * Copies of what the database said, none older than `ttlMs`. Concurrent misses of one key ask once; a failed question
 * is not remembered. A copy dropped while it is being loaded is not kept.
 */
export type FreshCache<Value> = {
  readonly get: (key: string, load: () => Promise<Value>) => Promise<Value>;
  /** The copy at hand, without asking. */
  readonly peek: (key: string) => Value | undefined;
  readonly dropWhere: (matches: (value: Value) => boolean) => void;
  readonly clear: () => void;
};

export function createFreshCache<Value extends {}>(
  entriesMax: number,
  ttlMs: number = FRESH_MS,
): FreshCache<Value> {
  // Otherwise the library keeps the time of a look for a millisecond, with a timer: at low load each request would wake
  // the process once more for nothing.
  const values = new LRUCache<string, Value>({ max: entriesMax, ttl: ttlMs, ttlResolution: 0 });
  const loading = new Map<string, Promise<Value>>();

  async function load(key: string, ask: () => Promise<Value>): Promise<Value> {
    const asked = performance.now();
    const question = ask();
    loading.set(key, question);
    try {
      const value = await question;
      // Its age counts from the question: the answer may be as old as that.
      const ttl = ttlMs - (performance.now() - asked);
      if (loading.get(key) === question && ttl > 0) values.set(key, value, { ttl });
      return value;
    } finally {
      if (loading.get(key) === question) loading.delete(key);
    }
  }

  return {
    get(key, ask) {
      const known = values.get(key);
      if (known !== undefined) return Promise.resolve(known);
      return loading.get(key) ?? load(key, ask);
    },
    peek: (key) => values.get(key),
    dropWhere(matches) {
      for (const [key, value] of values.entries()) {
        // Tests break this (mutant: dropped-copies): change notices take effect at once.
        if (matches(value)) values.delete(key);
      }
      // What is on its way may be about to match.
      loading.clear();
    },
    clear() {
      values.clear();
      loading.clear();
    },
  };
}
