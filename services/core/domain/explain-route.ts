import type { FailureClass } from './failure.ts';
import type { SkippedAccount, SkippedReason } from './skipped-account.ts';

/** A stretch of calls through one account, or a wait for it, after which the message went to another one. */
export type LeftAccount = {
  readonly accountId: string;
  /** Number of the last of these calls; null where there was none. */
  readonly attempt: number | null;
  /** Of the failure of that call; null where the account was not called for too long. */
  readonly class: FailureClass | null;
  /** Why it was not called; null after a failure. */
  readonly why: SkippedReason | null;
  /** ISO 8601, when that call had ended, or the wait. */
  readonly at: string;
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
  /** The account that was called last, or is called next; null before the first call, and where a simulator answers. */
  readonly accountId: string | null;
  /** Calls so far. */
  readonly attempts: number;
  /** The class of the failure that ended it; null where none did. */
  readonly endedBy: FailureClass | null;
  /** When it ended; null while it has not. */
  readonly endedAt: string | null;
};

export const CHOSEN_REASONS = ['pinned', 'oldest_available', 'in_route', 'next_in_route'] as const;
export const ROUTE_VERDICTS = ['chosen', 'failed', 'skipped'] as const;

/** An account that was considered for a message. */
export type ConsideredAccount = {
  readonly accountId: string;
  readonly verdict: (typeof ROUTE_VERDICTS)[number];
  /** Why: of a failed one the class of its failure. */
  readonly reason: (typeof CHOSEN_REASONS)[number] | SkippedReason | FailureClass;
  /** The last call through it; absent where there was none. */
  readonly attempt?: number;
  /** ISO 8601. */
  readonly at: string;
};

/** Every account that was considered for a message, in order. */
export function explainRoute(facts: RouteFacts): ConsideredAccount[] {
  const { enqueuedAt, left, accountId, attempts, endedBy, endedAt } = facts;
  const skip = (one: SkippedAccount, at: string): ConsideredAccount => ({ ...one, verdict: 'skipped', at });
  const before = facts.skipped.map((id) => skip({ accountId: id, reason: 'disabled' }, enqueuedAt));
  const leaving = left.flatMap((one): ConsideredAccount[] => [
    {
      accountId: one.accountId,
      ...(one.class === null
        ? { verdict: 'skipped', reason: one.why ?? 'disabled' }
        : { verdict: 'failed', reason: one.class }),
      ...(one.attempt === null ? {} : { attempt: one.attempt }),
      at: one.at,
    },
    ...one.skipped.map((skipped) => skip(skipped, one.at)),
  ]);
  if (accountId === null) return [...before, ...leaving];
  const last = left.at(-1);
  const leftAfter = left.findLast(({ attempt }) => attempt !== null)?.attempt ?? 0;
  const called = leftAfter < attempts ? { attempt: attempts } : {};
  const now: ConsideredAccount =
    endedBy !== null && 'attempt' in called
      ? { accountId, verdict: 'failed', reason: endedBy, ...called, at: endedAt ?? enqueuedAt }
      : { accountId, verdict: 'chosen', reason: chosenBecause(facts), ...called, at: last?.at ?? enqueuedAt };
  return [...before, ...leaving, now];
}

function chosenBecause({ isPinned, routeVersion, left }: RouteFacts): (typeof CHOSEN_REASONS)[number] {
  if (isPinned) return 'pinned';
  if (left.length > 0) return 'next_in_route';
  return routeVersion === null ? 'oldest_available' : 'in_route';
}
