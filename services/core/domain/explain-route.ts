import type { FailureClass } from './failure.ts';
import type { SkippedAccount, SkippedReason, UnsentReason } from './skipped-account.ts';

/** A stretch of calls through one account, or a wait for it, after which the message went to another one. */
export type LeftAccount = {
  readonly accountId: string;
  /** Number of the last of these calls; null where there was none. */
  readonly attempt: number | null;
  /** Of the failure of that call; null where the account was not called for too long. */
  readonly class: FailureClass | null;
  /** Why it was not called, or that no receipt came in time; null after a failure. */
  readonly why: SkippedReason | UnsentReason | 'receipt_timeout' | null;
  /** ISO 8601, when that call had ended, or the wait. */
  readonly at: string;
  /** The account that it went to: its own where it stayed, or ended there, and others were passed over. */
  readonly to: string;
  /** Accounts that would have gone next. */
  readonly skipped: readonly SkippedAccount[];
};

/** What is stored of how a message found its accounts. */
export type RouteFacts = {
  readonly enqueuedAt: string;
  readonly isPinned: boolean;
  /** Of the route at acceptance; null where none was set. */
  readonly routeVersion: number | null;
  /** Accounts that would have gone first and were disabled or deleted. */
  readonly skipped: readonly string[];
  /** In the order of their calls. */
  readonly left: readonly LeftAccount[];
  /** Its first call without an answer, and the accounts that were considered for it until then; null without one. */
  readonly ambiguous: { readonly at: string; readonly accounts: readonly string[] } | null;
  /** The account that was called last, or is called next; null before the first call, and where a simulator answers. */
  readonly accountId: string | null;
  /** Calls so far. */
  readonly attempts: number;
  /** The one that it was sent by, where a later one was not accepted; else null. */
  readonly sentAttempt: number | null;
  /** The class of the failure that ended it; null where none did. */
  readonly endedBy: FailureClass | null;
  /** When it ended; null while it has not. */
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
  /** Why: of a failed one the class of its failure, or that its receipt did not come in time. */
  readonly reason: (typeof CHOSEN_REASONS)[number] | SkippedReason | FailureClass | 'receipt_timeout';
  /** The last call through it; absent where there was none. */
  readonly attempt?: number;
  /** ISO 8601. */
  readonly at: string;
};

/** Every account that was considered for a message, in order. */
export function explainRoute(facts: RouteFacts): ConsideredAccount[] {
  const { enqueuedAt, left, accountId } = facts;
  const before = facts.skipped.map((id) => skip({ accountId: id, reason: 'disabled' }, enqueuedAt));
  const leaves = left.filter(isLeft);
  const last = leaves.at(-1);
  const split = last === undefined ? 0 : left.indexOf(last) + 1;
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

/** The account that the message is with, or ended at. */
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

/** After a call without an answer no other account is called: neither one that was not considered yet, nor any again. */
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

/** An account that is passed over in each round is told of once. */
function withoutEchoes(considered: readonly ConsideredAccount[]): ConsideredAccount[] {
  const latest = new Map<string, ConsideredAccount>();
  return considered.filter((one) => {
    const earlier = latest.get(one.accountId);
    latest.set(one.accountId, one);
    return (
      one.verdict !== 'skipped' ||
      'attempt' in one ||
      earlier?.verdict !== 'skipped' ||
      earlier.reason !== one.reason
    );
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
