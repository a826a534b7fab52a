import { LRUCache } from 'lru-cache';
import type { MonotonicClock } from '#core/domain/clock.ts';
import type { NamedLimit } from '#core/domain/fault/app-error.ts';

/** Tracks sends of service keys that were refused or replayed: they use up no limit but cost work. */
export type UncountedSends = {
  /** Counts an uncounted send of a key. */
  readonly note: (keyId: string) => void;
  /**
   * Counts the messages of one batch, as at most a quarter of what its key is allowed: one refused batch, such as one with a fault
   * that its sender corrects at once, must not end the key's sends for a minute.
   * @param limit the key's requests per minute.
   */
  readonly noteBatch: (keyId: string, limit: number, messages: number) => void;
  /**
   * Returns the seconds until the key is admitted again, 1 to 61; undefined where it is admitted now.
   * @param limit the key's requests per minute.
   */
  readonly retryAfter: (keyId: string, limit: number) => number | undefined;
};

/** One bucket per second. Two calls 59.01 seconds apart can fall into buckets that are 60 apart. */
const BUCKETS = 61;
/**
 * The least allowance. Replays count toward no limit, so a key with a small one may repeat accepted requests far more often; as
 * many cost a process a second of work a minute.
 */
const ALLOWED_MIN = 600;
const BATCH_SHARE_MAX = 0.25;
const KEYS_MAX = 20_000;

/**
 * Returns how many uncounted sends a key may make in a minute.
 * @param limit the key's requests per minute.
 */
export function uncountedLimit(limit: number): NamedLimit {
  return { name: 'uncountedSendsPerMinute', value: Math.max(limit, ALLOWED_MIN) };
}

type Window = { second: number; total: number; readonly counts: Uint32Array };

/**
 * Creates the counts of sends that the database does not count. In any rolling minute of this process a key may make as many
 * uncounted sends as counted ones, and at least `ALLOWED_MIN`.
 */
export function createUncountedSends(monotonicMs: MonotonicClock = () => performance.now()): UncountedSends {
  const windows = new LRUCache<string, Window>({ max: KEYS_MAX });

  function advance(window: Window): Window {
    const second = Math.floor(monotonicMs() / 1_000);
    if (second - window.second >= BUCKETS) {
      window.counts.fill(0);
      window.total = 0;
    } else {
      for (let s = window.second + 1; s <= second; s += 1) {
        window.total -= window.counts[s % BUCKETS] as number;
        window.counts[s % BUCKETS] = 0;
      }
    }
    window.second = second;
    return window;
  }

  function add(keyId: string, sends: number): void {
    let window = windows.get(keyId);
    if (window === undefined) {
      window = { second: Math.floor(monotonicMs() / 1_000), total: 0, counts: new Uint32Array(BUCKETS) };
      windows.set(keyId, window);
    }
    const { counts, second } = advance(window);
    counts[second % BUCKETS] = (counts[second % BUCKETS] as number) + sends;
    window.total += sends;
  }

  return {
    note: (keyId) => add(keyId, 1),
    noteBatch(keyId, limit, messages) {
      if (messages > 0)
        add(keyId, Math.min(messages, Math.ceil(uncountedLimit(limit).value * BATCH_SHARE_MAX)));
    },
    retryAfter(keyId, limit) {
      const known = windows.get(keyId);
      if (known === undefined) return undefined;
      const { second, total, counts } = advance(known);
      let left = total;
      for (let age = BUCKETS - 1; age >= 0; age -= 1) {
        if (left < uncountedLimit(limit).value) return age === BUCKETS - 1 ? undefined : BUCKETS - 1 - age;
        left -= counts[(second - age + BUCKETS) % BUCKETS] as number;
      }
      return BUCKETS;
    },
  };
}
