import { LRUCache } from 'lru-cache';

/** Service keys that the database has just refused, so that insisting costs it nothing. */
export type RateMemory = {
  /** @param retryAfter Seconds as the database counted them, 1 to 61. */
  readonly refused: (keyId: string, limit: number, retryAfter: number) => void;
  /** Seconds until a call can pass again; undefined where the database has to say. */
  readonly retryAfter: (keyId: string, limit: number) => number | undefined;
};

type Refusal = { readonly limit: number; readonly until: number };

const KEYS_MAX = 20_000;

/**
 * A window that is full stays full until its oldest second leaves it, whoever calls. The database counts whole seconds,
 * so the last of them, in which a call may pass already, is left to it. A key with another limit is asked for anew.
 * @param now Milliseconds of a clock that never goes back.
 */
export function createRateMemory(now: () => number = () => performance.now()): RateMemory {
  const refusals = new LRUCache<string, Refusal>({ max: KEYS_MAX });
  return {
    refused(keyId, limit, retryAfter) {
      if (retryAfter > 1) refusals.set(keyId, { limit, until: now() + retryAfter * 1_000 });
    },
    retryAfter(keyId, limit) {
      const refusal = refusals.get(keyId);
      if (refusal === undefined || refusal.limit !== limit) return undefined;
      const seconds = Math.ceil((refusal.until - now()) / 1_000);
      return seconds > 1 ? seconds : undefined;
    },
  };
}
