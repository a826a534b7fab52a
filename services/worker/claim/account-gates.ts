import { LRUCache } from 'lru-cache';
import type { EpochClock, MonotonicClock } from '#core/domain/clock.ts';
import { SECOND_MS } from '#core/domain/text/duration.ts';
import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import type { Settlement } from '#core/domain/sending/settlement.ts';
import type { ClosedReason } from '#core/domain/routing/skipped-account.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Breakers } from '../accounts/breakers.ts';

/** When an account's lane may be claimed from, and for how many messages. The state is local to this process. */
export type AccountGates = {
  /** In ms of the monotonic clock; a time in the past means that the gate is open. */
  closedUntil(accountId: string): number;
  /** Whether messages may be claimed by name: the account has no rate limit, its provider is healthy, its credential available. */
  isFree(accountId: string): boolean;
  /** Why the lane is not claimed from now, or was not within the last second; undefined if it is open. */
  whyClosed(accountId: string): ClosedReason | undefined;
  /**
   * Returns how many messages to claim. For an account to be probed it is one, and the gate then closes for a moment, in which
   * the probe begins.
   */
  slots(accountId: string, most: number): number;
  /**
   * Records the end of an attempt. If the account's credential was unavailable, the gate closes until the message's next attempt,
   * and then lets one message at a time try until one gets the credential.
   * @param begunAt when the attempt began, in ms of the monotonic clock. One that began before the gate closed does not open it.
   * @returns whether the gate was opened.
   */
  noteEnd(
    message: Pick<ClaimedMessage, 'action' | 'accountId'>,
    settlement: Pick<Settlement, 'reason' | 'nextAttemptAt'> | null,
    begunAt: number,
  ): boolean;
  /** Stores the account's rate limit. */
  noteLimit(accountId: string, perSecond: number | null): void;
  /**
   * Records the end of a claim from a lane. If the account's tokens appear to be used up, the gate closes until some of those that
   * this process took are free again, or for a second if it took none.
   * @returns whether the lane may hold more due messages.
   */
  claimed(accountId: string, asked: number, segments: readonly number[]): boolean;
  /** Drops all state of an account that was changed, or whose provider has recovered. */
  forget(accountId: string): void;
};

/** `spent`: the tokens that this process took within the last second, the oldest first; `at` in ms of the monotonic clock. */
type Tokens = { readonly perSecond: number; spent: readonly Spent[] };
type Spent = { readonly at: number; readonly units: number };

/** `since`: when the credential was last unavailable. Both in ms of the monotonic clock. */
type Unavailable = { readonly since: number; readonly until: number };

/** Accounts whose rate limit is cached; the limit of an evicted account is set again by its next claim. */
const LIMITED_MAX = 20_000;
/** Tokens that the next message may need, in segments: a message gets all of its tokens or none. */
const SEGMENTS_USUAL = 3;
/** After this long the database gives a token out again: a second, and up to a tick of `account_rates`. */
const TOKEN_MS = 1_020;
/** A gate opens for at least this part of the limit: each look costs the database the same, however few tokens are free. */
const PART_OF_LIMIT = 1 / 8;
/** The same after a look that found nothing: probably the lane is empty, and if it is not, other workers take the tokens. */
const PART_AFTER_NOTHING = 1 / 2;
/** Maximum time from the claim of a probe until it reaches the breaker. */
const PROBE_MS = 1_000;

/**
 * Creates the account gates of this process.
 * @param monotonicMs for the times of the gates.
 * @param epochMs a next attempt is an instant of this clock.
 */
export function createAccountGates(
  breakers: Pick<Breakers, 'blockedUntil' | 'health'>,
  { monotonicMs, epochMs }: { readonly monotonicMs: MonotonicClock; readonly epochMs: EpochClock },
): AccountGates {
  const limited = new LRUCache<string, Tokens>({ max: LIMITED_MAX });
  const closed = new LRUCache<string, number>({ max: LIMITED_MAX });

  const unavailable = new LRUCache<string, Unavailable>({ max: LIMITED_MAX });

  const isHealthy = (accountId: string): boolean => breakers.health(accountId) === 'healthy';
  const isProbed = (accountId: string): boolean => !isHealthy(accountId) || unavailable.has(accountId);

  function spend(tokens: Tokens, segments: readonly number[]): void {
    const at = monotonicMs();
    const units = sumOf(segments);
    const recent = tokens.spent.filter((spent) => spent.at > at - TOKEN_MS);
    tokens.spent = units === 0 ? recent : [...recent, { at, units }];
  }

  return {
    closedUntil: (accountId) =>
      Math.max(
        closed.get(accountId) ?? 0,
        unavailable.get(accountId)?.until ?? 0,
        breakers.blockedUntil(accountId),
      ),
    isFree: (accountId) =>
      accountId === NO_ACCOUNT || (!isProbed(accountId) && limited.get(accountId) === undefined),
    whyClosed(accountId) {
      if (!isHealthy(accountId)) return 'breaker_open';
      // The gate of an account whose rate is used up opens briefly, up to some eight times a second (`PART_OF_LIMIT`).
      const isUsedUp =
        limited.has(accountId) &&
        (closed.get(accountId) ?? Number.NEGATIVE_INFINITY) > monotonicMs() - SECOND_MS;
      return isUsedUp ? 'rate_used_up' : undefined;
    },
    slots(accountId, most) {
      if (!isProbed(accountId)) return most;
      closed.set(accountId, monotonicMs() + PROBE_MS);
      return Math.min(1, most);
    },
    noteEnd({ action, accountId }, settlement, begunAt) {
      // These attempts ended without a try to get the credential.
      const isUntried = action === 'lost' || settlement?.reason === 'shutdown';
      if (accountId === null || settlement === null || isUntried) return false;
      const known = unavailable.get(accountId);
      const { reason, nextAttemptAt } = settlement;
      if (reason === 'credentials_unavailable') {
        const until = Math.max(
          monotonicMs() + Math.max(0, (nextAttemptAt ?? epochMs()) - epochMs()),
          known?.until ?? 0,
        );
        unavailable.set(accountId, { since: monotonicMs(), until });
        return false;
      }
      if (known === undefined || begunAt < known.since) return false;
      closed.delete(accountId);
      return unavailable.delete(accountId);
    },
    noteLimit(accountId, perSecond) {
      if (perSecond === null) limited.delete(accountId);
      else if (limited.get(accountId)?.perSecond !== perSecond)
        limited.set(accountId, { perSecond, spent: [] });
    },
    claimed(accountId, asked, segments) {
      const tokens = limited.get(accountId);
      if (tokens === undefined) return segments.length >= asked;
      spend(tokens, segments);
      if (segments.length >= asked) return true;
      // The claim got fewer than it asked for: either the lane is empty, or all workers together used up the tokens.
      const spent = sumOf(tokens.spent.map(({ units }) => units));
      if (segments.length > 0 && spent + SEGMENTS_USUAL <= tokens.perSecond) return false;
      const part = segments.length === 0 ? PART_AFTER_NOTHING : PART_OF_LIMIT;
      closed.set(accountId, (freeingSpend(tokens, part)?.at ?? monotonicMs()) + TOKEN_MS);
      return spent > 0;
    },
    forget(accountId) {
      limited.delete(accountId);
      closed.delete(accountId);
      unavailable.delete(accountId);
    },
  };
}

/** Returns the spend whose tokens complete this part of the limit when they are free again. */
function freeingSpend({ perSecond, spent }: Tokens, part: number): Spent | undefined {
  let units = 0;
  return spent.find((one) => (units += one.units) >= perSecond * part) ?? spent.at(-1);
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0);
}
