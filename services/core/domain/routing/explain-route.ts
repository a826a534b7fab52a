import type { FailureClass } from '../sending/failure.ts';
import type { SkippedAccount, SkippedReason, UnsentReason } from './skipped-account.ts';

/** Consecutive calls through one account, or a wait for it, after which the message moved to another account. */
export type LeftAccount = {
  readonly accountId: string;
  /** Number of the last of these calls; null if there was none. */
  readonly attempt: number | null;
  /** Failure class of that call; null if the account could not be called for too long. */
  readonly class: FailureClass | null;
  /** Why the account was not called, or that no receipt came in time; null after a failure. */
  readonly why: SkippedReason | UnsentReason | 'receipt_timeout' | null;
  /** End of that call or wait, ISO 8601. */
  readonly at: string;
  /** The account that the message moved to; its own account if it stayed or ended there and others were skipped. */
  readonly to: string;
  /** Accounts that came before `to` in the route. */
  readonly skipped: readonly SkippedAccount[];
};

/** The stored facts about how a message found its accounts. */
export type RouteFacts = {
  readonly enqueuedAt: string;
  readonly isPinned: boolean;
  /** Version of the route at acceptance; null if no route was set. */
  readonly routeVersion: number | null;
  /** Accounts that came first but were disabled or deleted. */
  readonly skipped: readonly string[];
  /** In the order of their calls. */
  readonly left: readonly LeftAccount[];
  /** The first ambiguous call, and the accounts of the route at that time; null without an ambiguous call. */
  readonly ambiguous: { readonly at: string; readonly accounts: readonly string[] } | null;
  /** The account that was called last, or is called next; null before the first call, and if a simulator answers. */
  readonly accountId: string | null;
  /** Number of calls so far. */
  readonly attempts: number;
  /** The attempt that was accepted, if a later one was not; else null. */
  readonly sentAttempt: number | null;
  /** Class of the failure that ended the message; null without one. */
  readonly endedBy: FailureClass | null;
  /** When the message ended; null if it has not. */
  readonly endedAt: string | null;
};

export const CHOSEN_REASONS = [
  'pinned',
  'oldest_available',
  'in_route',
  'next_in_route',
  'sent_before',
] as const;
export const ROUTE_VERDICTS = ['chosen', 'failed', 'skipped'] as const;

/** An account that was considered for a message. */
export type ConsideredAccount = {
  readonly accountId: string;
  readonly verdict: (typeof ROUTE_VERDICTS)[number];
  /** The reason: for `failed` the class of the failure, or that the receipt did not come in time. */
  readonly reason: (typeof CHOSEN_REASONS)[number] | SkippedReason | FailureClass | 'receipt_timeout';
  /** The last call through the account; absent without one. */
  readonly attempt?: number;
  /** ISO 8601. */
  readonly at: string;
};

/** Returns every account that was considered for a message, in order. */
export function explainRoute(facts: RouteFacts): ConsideredAccount[] {
  const { enqueuedAt, left, accountId } = facts;
  const before = facts.skipped.map((id) => skip({ accountId: id, reason: 'disabled' }, enqueuedAt));
  const leaves = left.filter(isLeft);
  const last = leaves.at(-1);
  const split = left.findLastIndex(isLeft) + 1;
  const told = (some: readonly LeftAccount[]): ConsideredAccount[] =>
    some.flatMap((one) => [
      ...(isLeft(one) ? [leftAs(one)] : []),
      ...one.skipped.map((skipped) => skip(skipped, one.at)),
    ]);
  const now = accountId === null ? [] : [nowAs(accountId, facts, last, leaves)];
  const considered = [...before, ...told(left.slice(0, split)), ...now, ...told(left.slice(split))];
  return withoutEchoes([...considered, ...boundTo(facts, considered)]);
}

const isLeft = ({ accountId, to }: LeftAccount): boolean => to !== accountId;

const skip = (one: SkippedAccount, at: string): ConsideredAccount => ({ ...one, verdict: 'skipped', at });

function leftAs(one: LeftAccount): ConsideredAccount {
  return {
    accountId: one.accountId,
    ...(one.why === 'receipt_timeout'
      ? { verdict: 'failed', reason: one.why }
      : one.class === null
        ? { verdict: 'skipped', reason: one.why ?? 'disabled' }
        : { verdict: 'failed', reason: one.class }),
    ...(one.attempt === null ? {} : { attempt: one.attempt }),
    at: one.at,
  };
}

/** Returns the account that has the message now, or at which it ended. */
function nowAs(
  accountId: string,
  { enqueuedAt, attempts, sentAttempt, endedBy, endedAt, isPinned, routeVersion }: RouteFacts,
  last: LeftAccount | undefined,
  leaves: readonly LeftAccount[],
): ConsideredAccount {
  if (sentAttempt !== null) {
    return {
      accountId,
      verdict: 'chosen',
      reason: 'sent_before',
      attempt: sentAttempt,
      at: last?.at ?? enqueuedAt,
    };
  }
  const leftAfter = leaves.findLast(({ attempt }) => attempt !== null)?.attempt ?? 0;
  const called = leftAfter < attempts ? { attempt: attempts } : {};
  if (endedBy !== null && 'attempt' in called) {
    return { accountId, verdict: 'failed', reason: endedBy, ...called, at: endedAt ?? enqueuedAt };
  }
  const reason = chosenBecause(isPinned, routeVersion, last !== undefined);
  return { accountId, verdict: 'chosen', reason, ...called, at: last?.at ?? enqueuedAt };
}

/** After an ambiguous call no other account is called, whether it was considered before or not. */
function boundTo(
  { ambiguous, accountId }: RouteFacts,
  considered: readonly ConsideredAccount[],
): ConsideredAccount[] {
  if (ambiguous === null) return [];
  const named = new Set([accountId, ...considered.map((one) => one.accountId)]);
  return ambiguous.accounts
    .filter((id) => !named.has(id))
    .map((id) => skip({ accountId: id, reason: 'ambiguous_elsewhere' }, ambiguous.at));
}

/** Removes repetitions: an account that is skipped in each round is listed once. */
function withoutEchoes(considered: readonly ConsideredAccount[]): ConsideredAccount[] {
  const latest = new Map<string, ConsideredAccount>();
  return considered.filter((one) => {
    const earlier = latest.get(one.accountId);
    latest.set(one.accountId, one);
    return 'attempt' in one || earlier?.verdict !== 'skipped' || earlier.reason !== one.reason;
  });
}

function chosenBecause(
  isPinned: boolean,
  routeVersion: number | null,
  isNext: boolean,
): (typeof CHOSEN_REASONS)[number] {
  if (isPinned) return 'pinned';
  if (isNext) return 'next_in_route';
  return routeVersion === null ? 'oldest_available' : 'in_route';
}
