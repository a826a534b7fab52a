import { LRUCache } from 'lru-cache';
import { NO_ACCOUNT } from '#core/domain/choose-account.ts';
import type { Breakers } from '../accounts/breakers.ts';

/** When, and for how many messages, the database may be asked for work of an account. Facts of this process alone. */
export type AccountGates = {
  /** In ms since the epoch; in the past: now. */
  closedUntil(accountId: string): number;
  /** Whether messages may be claimed by name: without a rate limit and with a healthy provider. */
  isFree(accountId: string): boolean;
  /** Places to ask with; of an account that is to be probed one, and that closes it for the probe to begin. */
  places(accountId: string, most: number): number;
  /** What was learned of an account's rate limit. */
  noteLimit(accountId: string, perSecond: number | null): void;
  /**
   * A claim out of a lane has ended. Closes an account whose tokens seem to be used up until the next second.
   * @returns whether the lane may hold more that is due.
   */
  looked(accountId: string, asked: number, segments: readonly number[]): boolean;
  /** The account has changed, or its provider has recovered: what was known of it is over. */
  forget(accountId: string): void;
};

type Tokens = { readonly perSecond: number; second: number; spent: number };

/** Accounts with a rate limit that are remembered; of the others each claim tells anew. */
const LIMITED_MAX = 20_000;
/** The next message may need as many, and would not be given fewer. */
const SEGMENTS_USUAL = 3;
/** After the turn of a second, which the clock of the database may see later. */
const SECOND_MARGIN_MS = 10;
/** Until the breaker knows of the probe that was claimed. */
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
    places(accountId, most) {
      if (isHealthy(accountId)) return most;
      closed.set(accountId, now() + PROBE_MS);
      return Math.min(1, most);
    },
    noteLimit(accountId, perSecond) {
      if (perSecond === null) limited.delete(accountId);
      else if (limited.get(accountId)?.perSecond !== perSecond)
        limited.set(accountId, { perSecond, second: 0, spent: 0 });
    },
    looked(accountId, asked, segments) {
      const tokens = limited.get(accountId);
      if (tokens === undefined) return segments.length >= asked;
      spend(tokens, segments);
      if (segments.length >= asked) return true;
      // Fewer than asked for: the lane is empty, or the second's tokens are with us and the other workers.
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
