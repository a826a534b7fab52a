import { LRUCache } from 'lru-cache';
import { NO_ACCOUNT } from '#core/domain/choose-account.ts';
import type { ClosedReason } from '#core/domain/skipped-account.ts';
import type { Breakers } from '../accounts/breakers.ts';

/** When an account's lane may be claimed from, and for how many messages. Known by this process alone. */
export type AccountGates = {
  /** In ms since the epoch; in the past: now. */
  closedUntil(accountId: string): number;
  /** Whether messages may be claimed by name: without a rate limit and with a healthy provider. */
  isFree(accountId: string): boolean;
  /** Why its lane is not claimed from now, or was not within the last second; undefined where it is. */
  whyClosed(accountId: string): ClosedReason | undefined;
  /** How many messages to claim: one for an account to be probed, which is then closed until the probe has begun. */
  slots(accountId: string, most: number): number;
  /** Notes the account's rate limit. */
  noteLimit(accountId: string, perSecond: number | null): void;
  /**
   * A claim from a lane has ended. An account whose tokens seem to be used up is closed until the next second.
   * @returns whether the lane may hold more due messages.
   */
  claimed(accountId: string, asked: number, segments: readonly number[]): boolean;
  /** Forgets all about an account that has changed, or whose provider has recovered. */
  forget(accountId: string): void;
};

type Tokens = { readonly perSecond: number; second: number; spent: number };

/** Accounts remembered for their rate limit; beyond it, claims have to tell of it again. */
const LIMITED_MAX = 20_000;
/** Tokens that the next message may need, in segments: it gets all or none. */
const SEGMENTS_USUAL = 3;
/** Added to the start of a second, which may come later by the database's clock. */
const SECOND_MARGIN_MS = 10;
const SECOND_MS = 1_000;
/** How long a claimed probe may take to reach the breaker. */
const PROBE_MS = 1_000;

/** @param now milliseconds since the epoch. */
export function createAccountGates(
  breakers: Pick<Breakers, 'blockedUntil' | 'health'>,
  now: () => number,
): AccountGates {
  const limited = new LRUCache<string, Tokens>({ max: LIMITED_MAX });
  const closed = new LRUCache<string, number>({ max: LIMITED_MAX });

  const isHealthy = (accountId: string): boolean => breakers.health(accountId) === 'healthy';
  const secondOf = (at: number): number => Math.floor(at / 1_000);

  function spend(tokens: Tokens, segments: readonly number[]): void {
    const second = secondOf(now());
    if (tokens.second !== second) tokens.spent = 0;
    tokens.second = second;
    for (const units of segments) tokens.spent += units;
  }

  return {
    closedUntil: (accountId) => Math.max(closed.get(accountId) ?? 0, breakers.blockedUntil(accountId)),
    isFree: (accountId) =>
      accountId === NO_ACCOUNT || (isHealthy(accountId) && limited.get(accountId) === undefined),
    whyClosed(accountId) {
      if (!isHealthy(accountId)) return 'breaker_open';
      // Open for the moment in which a second's tokens are taken, and closed for the rest of it.
      const isUsedUp = limited.has(accountId) && (closed.get(accountId) ?? 0) > now() - SECOND_MS;
      return isUsedUp ? 'rate_used_up' : undefined;
    },
    slots(accountId, most) {
      if (isHealthy(accountId)) return most;
      closed.set(accountId, now() + PROBE_MS);
      return Math.min(1, most);
    },
    noteLimit(accountId, perSecond) {
      if (perSecond === null) limited.delete(accountId);
      else if (limited.get(accountId)?.perSecond !== perSecond)
        limited.set(accountId, { perSecond, second: 0, spent: 0 });
    },
    claimed(accountId, asked, segments) {
      const tokens = limited.get(accountId);
      if (tokens === undefined) return segments.length >= asked;
      spend(tokens, segments);
      if (segments.length >= asked) return true;
      // Fewer than asked for: either the lane is empty, or this second's tokens are used up by all workers together.
      if (segments.length > 0 && tokens.spent + SEGMENTS_USUAL <= tokens.perSecond) return false;
      closed.set(accountId, (secondOf(now()) + 1) * 1_000 + SECOND_MARGIN_MS);
      return tokens.spent > 0;
    },
    forget(accountId) {
      limited.delete(accountId);
      closed.delete(accountId);
    },
  };
}
