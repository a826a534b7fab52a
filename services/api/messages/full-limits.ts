import { backlogLimit, dailyLimit } from '#core/domain/mode-limits.ts';
import { createRateMemory } from '../auth/rate-memory.ts';
import type { KeyCaller } from '../auth/auth.ts';

type Full = { readonly verdict: 'daily_limit_reached' | 'backlog_full'; readonly retryAfter: number };

/**
 * Remembers that a tenant's day or backlog was full, by mode, until a message may be accepted again. A large content is stored before
 * the database decides about its message: without the memory, a tenant at its limit could have one after the other written for
 * nothing.
 */
export type FullLimits = {
  /** Notes a verdict of the database; ignores those that are about something else. @param retryAfter Seconds. */
  readonly note: (caller: KeyCaller, verdict: string, retryAfter: number) => void;
  /** Returns the refusal that a message of the caller would get; undefined where the database has to decide. */
  readonly find: (caller: KeyCaller) => Full | undefined;
};

const LIMITS = { daily_limit_reached: dailyLimit, backlog_full: backlogLimit } as const;

/** @param now Milliseconds of a monotonic clock. */
export function createFullLimits(now?: () => number): FullLimits {
  const memory = createRateMemory(now);
  const subjectOf = (
    { tenant, key }: KeyCaller,
    verdict: Full['verdict'],
  ): [subject: string, limit: number] => {
    const { value } = LIMITS[verdict](tenant.limits, key.mode === 'test');
    return [`${tenant.id} ${key.mode} ${verdict}`, value];
  };
  return {
    note(caller, verdict, retryAfter) {
      if (verdict !== 'daily_limit_reached' && verdict !== 'backlog_full') return;
      memory.refused(...subjectOf(caller, verdict), retryAfter);
    },
    find(caller) {
      for (const verdict of ['daily_limit_reached', 'backlog_full'] as const) {
        const retryAfter = memory.retryAfter(...subjectOf(caller, verdict));
        if (retryAfter !== undefined) return { verdict, retryAfter };
      }
      return undefined;
    },
  };
}
