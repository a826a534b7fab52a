import { LRUCache } from 'lru-cache';

/** Maximum age of a cached copy, in milliseconds. */
// Tests break this (mutant: fresh-copies): a revoked key is refused after five seconds even if its notice is lost.
const FRESH_MS = 5_000;

/** A copy is kept for at least this part of its maximum age. */
const KEPT_SHARE_MIN = 0.5;

/**
 * Caches values from the database for at most `ttlMs`, and for a random time of at least half of it: copies that were loaded
 * together, as after a start, would otherwise all be loaded again together, while requests wait. Concurrent misses of one key
 * share a single load; a failed load is not cached, and neither is null, the result of a load that found nothing. A key that is
 * dropped while it is being loaded is not cached either.
 */
export type FreshCache<Value> = {
  readonly get: <Found extends Value | null>(key: string, load: () => Promise<Found>) => Promise<Found>;
  /** Returns the cached copy without loading. */
  readonly peek: (key: string) => Value | undefined;
  readonly drop: (key: string) => void;
  readonly dropWhere: (matches: (value: Value) => boolean) => void;
  readonly clear: () => void;
};

/** @param weight bounds the copies by their weights as well, each at least 1. */
export function createFreshCache<Value extends {}>(
  entriesMax: number,
  ttlMs: number = FRESH_MS,
  weight?: { readonly max: number; readonly of: (value: Value) => number },
): FreshCache<Value> {
  // With a `ttlResolution` of 0 the library reads the clock each time. Otherwise it caches the time for a millisecond with a
  // timer: at low load each request would cause one needless wake-up of the process.
  const values = new LRUCache<string, Value>({
    max: entriesMax,
    ttl: ttlMs,
    ttlResolution: 0,
    ...(weight === undefined ? {} : { maxSize: weight.max, sizeCalculation: weight.of }),
  });
  const loading = new Map<string, Promise<Value | null>>();

  async function load<Found extends Value | null>(key: string, ask: () => Promise<Found>): Promise<Found> {
    const asked = performance.now();
    const question = ask();
    loading.set(key, question);
    try {
      const value = await question;
      // The age counts from the start of the load: the answer may be that old.
      const keptMs = ttlMs * (KEPT_SHARE_MIN + (1 - KEPT_SHARE_MIN) * Math.random());
      const ttl = keptMs - (performance.now() - asked);
      if (value !== null && loading.get(key) === question && ttl > 0) values.set(key, value, { ttl });
      return value;
    } finally {
      if (loading.get(key) === question) loading.delete(key);
    }
  }

  return {
    get<Found extends Value | null>(key: string, ask: () => Promise<Found>) {
      const known = values.get(key);
      if (known !== undefined) return Promise.resolve(known as Found);
      return (loading.get(key) as Promise<Found> | undefined) ?? load(key, ask);
    },
    peek: (key) => values.get(key),
    drop(key) {
      values.delete(key);
      loading.delete(key);
    },
    dropWhere(matches) {
      for (const [key, value] of values.entries()) {
        // Tests break this (mutant: dropped-copies): change notices take effect at once.
        if (matches(value)) values.delete(key);
      }
      // Values that are being loaded may match too.
      loading.clear();
    },
    clear() {
      values.clear();
      loading.clear();
    },
  };
}
