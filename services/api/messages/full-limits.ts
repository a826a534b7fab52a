import type { MonotonicClock } from '#core/domain/clock.ts';
import { backlogLimit, dailyLimit } from '#core/domain/tenant/mode-limits.ts';
import type { KeyCaller } from '../auth/auth.ts';
import { createRateMemory } from '../caches/rate-memory.ts';

const LIMITS = { daily_limit_reached: dailyLimit, backlog_full: backlogLimit } as const;
const VERDICTS = Object.keys(LIMITS) as (keyof typeof LIMITS)[];

/** @property retryAfter Seconds until a message may be accepted again. */
type Full = { readonly verdict: keyof typeof LIMITS; readonly retryAfter: number };

/**
 * Remembers that a tenant's day or backlog was full, by mode. A large content is stored before the database decides about its
 * message: without the memory, a tenant at its limit could have one after the other written for nothing.
 */
export type FullLimits = {
  /** Notes a verdict of the database; ignores those that are about something else. @param retryAfter Seconds. */
  readonly note: (caller: KeyCaller, verdict: string, retryAfter: number) => void;
  /** Returns the refusal that a message of the caller would get; undefined where the database has to decide. */
  readonly find: (caller: KeyCaller) => Full | undefined;
};

/** The longest time without asking the database: a day may have room again when counts are corrected. */
const REMEMBERED_MS_MAX = 60_000;

export function createFullLimits(monotonicMs?: MonotonicClock): FullLimits {
  const memory = createRateMemory(monotonicMs, REMEMBERED_MS_MAX);
  const nameOf = ({ tenant, key }: KeyCaller, verdict: string): string =>
    `${tenant.id} ${key.mode} ${verdict}`;
  const limitOf = ({ tenant, key }: KeyCaller, verdict: keyof typeof LIMITS): number =>
    LIMITS[verdict](tenant.limits, key.mode === 'test').value;

  return {
    note(caller, noted, retryAfter) {
      const verdict = VERDICTS.find((one) => one === noted);
      if (verdict === undefined) return;
      memory.refused(nameOf(caller, verdict), limitOf(caller, verdict), retryAfter);
    },
    find(caller) {
      for (const verdict of VERDICTS) {
        const retryAfter = memory.retryAfter(nameOf(caller, verdict), limitOf(caller, verdict));
        if (retryAfter !== undefined) return { verdict, retryAfter };
      }
      return undefined;
    },
  };
}
