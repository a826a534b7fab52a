import { LRUCache } from 'lru-cache';
import type { MonotonicClock } from '#core/domain/clock.ts';

/** Remembers service keys and users that the database has just rate-limited, so that their further calls cost it nothing. */
export type RateMemory = {
  /** @param retryAfter Seconds computed by the database, 1 to 61. */
  readonly refused: (subject: string, limit: number, retryAfter: number) => void;
  /** Returns the seconds until a call may pass again; undefined when the database has to decide. */
  readonly retryAfter: (subject: string, limit: number) => number | undefined;
};

type Refusal = { readonly limit: number; readonly until: number };

const SUBJECTS_MAX = 20_000;

/**
 * Creates the memory. A full window stays full until its oldest second leaves it, regardless of further calls. The database
 * counts whole seconds, so during the last second, in which a call may already pass, the database decides. A subject whose
 * limit changed is checked again.
 * @param rememberedMsMax Time after which the database decides again, however long the wait is. Default: the wait.
 */
export function createRateMemory(
  monotonicMs: MonotonicClock = () => performance.now(),
  rememberedMsMax = 0,
): RateMemory {
  const refusals = new LRUCache<string, Refusal>({
    max: SUBJECTS_MAX,
    ttl: rememberedMsMax,
    ttlResolution: 0,
    perf: { now: monotonicMs },
  });
  return {
    refused(subject, limit, retryAfter) {
      if (retryAfter > 1) refusals.set(subject, { limit, until: monotonicMs() + retryAfter * 1_000 });
    },
    retryAfter(subject, limit) {
      const refusal = refusals.get(subject);
      if (refusal === undefined || refusal.limit !== limit) return undefined;
      const seconds = Math.ceil((refusal.until - monotonicMs()) / 1_000);
      return seconds > 1 ? seconds : undefined;
    },
  };
}
