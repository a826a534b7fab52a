import type { BrakeLevel } from './brake.ts';
import { chooseAccount, routeFor } from './choose-account.ts';
import { reroutedTo, type Rerouted } from './failover.ts';
import type { Failure } from './failure.ts';
import { assertMove, isWaiting, type MessageState } from './message-state.ts';
import { orderOf, routeByAge, type Route } from './route.ts';
import type { ClosedReason, LeftReason, SkippedAccount, UnsentReason } from './skipped-account.ts';
import { SUPPRESSION_REASONS, type SuppressionReason } from './suppression.ts';

/** A message that no claim took, as the database describes it; due, expired and over are by the database's clock. */
export type WaitingMessage = {
  readonly id: string;
  readonly status: MessageState;
  readonly tenantStatus: string;
  readonly channel: string;
  /** Sent with a test key: a simulator answers, and no account is needed. */
  readonly test: boolean;
  readonly accountId: string;
  /** Null where the account is deleted, or there is none. */
  readonly accountStatus: string | null;
  /** The sender named the account. */
  readonly pinned: boolean;
  /** Accounts that will never take it. */
  readonly refusedBy: readonly string[];
  /** Calls so far that may have reached the provider without an answer. */
  readonly ambiguous: number;
  readonly isDue: boolean;
  readonly isExpired: boolean;
  /** Only while `sending`: the worker's lease is over. */
  readonly isLeaseOver: boolean;
  /** How long it could have been claimed by now, in milliseconds: since it is due, or was given to its account. */
  readonly waitedMs: number;
  /** Accounts that it has left as their rate was used up. */
  readonly leftForRate: readonly string[];
  /** Of its tenant's channel; null without one, and for test messages. */
  readonly brake: BrakeLevel | null;
  /** A provider has accepted it before, and did not report on it in time. Default: none has. */
  readonly isSent?: boolean;
  /** Why its recipient gets nothing of this kind; null where nothing says so. */
  readonly suppression: SuppressionReason | null;
};

type Account = { readonly id: string; readonly channel: string; readonly status: string };

/** Without a call: it ends, or is put aside. What is decided alike is the same object, and moved at once. */
export type WaitingMove = {
  readonly kind: 'move';
  readonly status: MessageState;
  /** Why it ends; null where it does not. */
  readonly failure: StoredEnd | null;
  /** Why it is in its new state, where neither that nor a failure says so. */
  readonly reason?: SuppressionReason | 'abuse_brake';
};

export type WaitingDecision =
  | WaitingMove
  /** Another account is to send it. */
  | {
      readonly kind: 'assign';
      readonly rerouted: Rerouted;
      /** Why its own does not. */
      readonly why: LeftReason;
    }
  /** Can be sent, but only out of its lane: the account has a rate limit, or it changed as it was claimed. */
  | { readonly kind: 'lane' }
  /** The worker that began its attempt is gone. */
  | { readonly kind: 'lost' }
  /** It is sent, as before it waited for another account, and no other one sends it. */
  | { readonly kind: 'return'; readonly why: UnsentReason }
  /** Nothing to do now. */
  | { readonly kind: 'wait' };

type StoredEnd = Pick<Failure, 'class' | 'code'> & { readonly retryable: false };

/** Until the tenant is active again. */
const HOLD: WaitingMove = { kind: 'move', status: 'held', failure: null };
/** Until the brake of its channel is lifted. */
const BRAKE: WaitingMove = { kind: 'move', status: 'held', failure: null, reason: 'abuse_brake' };
const EXPIRE: WaitingMove = {
  kind: 'move',
  status: 'expired',
  failure: { class: 'expired', code: 'expired', retryable: false },
};
const FAIL_WITHOUT_ROUTE: WaitingMove = {
  kind: 'move',
  status: 'failed',
  failure: { class: 'no_route', code: 'no_route', retryable: false },
};
const SUPPRESS = Object.fromEntries(
  SUPPRESSION_REASONS.map((reason) => [
    reason,
    { kind: 'move', status: 'suppressed', failure: null, reason },
  ]),
) as unknown as Readonly<Record<SuppressionReason, WaitingMove>>;
/** The instant that its sender named has come. */
const QUEUE: WaitingMove = { kind: 'move', status: 'queued', failure: null };
/** Of a message whose claim the database refuses. */
export const UNPROCESSABLE: StoredEnd = { class: 'unknown', code: 'unprocessable', retryable: false };

/**
 * Decides about a message that waits and was not claimed. A suspension, and a brake that holds, come before the expiry, since
 * time in `held` does not count; what is scheduled stays so until its instant; the expiry comes before the recipient's own
 * wish, and that before the route.
 * @param accounts The tenant's, neither disabled nor deleted, the oldest first; used only where its own is not usable, or closed.
 * @param routes Those that the tenant has set; used as the accounts are.
 * @param closed Accounts that cannot be called now. What waits for one of them for longer than its route allows goes on to the
 * next that can. Default: none.
 */
export function decideWaiting(
  message: WaitingMessage,
  accounts: readonly Account[],
  routes: readonly Route[],
  closed: ReadonlyMap<string, ClosedReason> = NONE_CLOSED,
): WaitingDecision {
  const { status } = message;
  if (status === 'sending') return { kind: message.isLeaseOver ? 'lost' : 'wait' };
  if (status !== 'scheduled' && status !== 'queued' && status !== 'deferred') return { kind: 'wait' };
  const decision = returned(message, decide(message, accounts, routes, closed));
  if (decision.kind === 'return') assertMove(status, 'sent');
  if (decision.kind === 'move') assertMove(status, decision.status);
  if (decision.kind === 'lane' || decision.kind === 'assign') assertMove(status, 'sending');
  return decision;
}

/** In the states that it would end in receipts count for nothing; those of the call that was accepted may still come. */
function returned({ isSent }: WaitingMessage, decision: WaitingDecision): WaitingDecision {
  if (isSent !== true || decision.kind !== 'move' || isWaiting(decision.status)) return decision;
  return RETURNS[decision.status] ?? decision;
}

/** By the state that it would end in. */
const RETURNS: Readonly<Partial<Record<MessageState, WaitingDecision>>> = {
  expired: { kind: 'return', why: 'expired' },
  suppressed: { kind: 'return', why: 'suppressed' },
  failed: { kind: 'return', why: 'disabled' },
};

function decide(
  message: WaitingMessage,
  accounts: readonly Account[],
  routes: readonly Route[],
  closed: ReadonlyMap<string, ClosedReason>,
): WaitingDecision {
  if (message.tenantStatus !== 'active') return HOLD;
  if (message.brake === 'held' && (message.status !== 'scheduled' || message.isDue)) return BRAKE;
  if (message.isExpired) return EXPIRE;
  if (!message.isDue) return { kind: 'wait' };
  if (message.status === 'scheduled') return QUEUE;
  if (message.suppression !== null) return SUPPRESS[message.suppression];
  return hasUsableAccount(message)
    ? (elsewhere(message, accounts, routes, closed) ?? LANE)
    : reassign(message, accounts, routes);
}

const LANE = { kind: 'lane' } as const;
const NONE_CLOSED: ReadonlyMap<string, ClosedReason> = new Map();

/** After a call without an answer a message stays with its account: only there can a second copy be recognised. */
function isBound({ pinned, ambiguous }: WaitingMessage): boolean {
  return pinned || ambiguous > 0;
}

/** What becomes of a message whose account is disabled or deleted. */
function reassign(
  message: WaitingMessage,
  accounts: readonly Account[],
  routes: readonly Route[],
): WaitingDecision {
  const { id, channel, accountId, refusedBy } = message;
  const pinned = isBound(message) ? accountId : null;
  const asked = accounts.filter((account) => !refusedBy.includes(account.id));
  const choice = chooseAccount(asked, { id, channel, pinned }, routes);
  if (choice === undefined) return FAIL_WITHOUT_ROUTE;
  const { account } = choice;
  // The account has become usable since the message was read.
  if (account.id === accountId) return LANE;
  const skipped = choice.skipped
    .filter((one) => one !== accountId && !refusedBy.includes(one))
    .map((one): SkippedAccount => ({ accountId: one, reason: 'disabled' }));
  const route = routeFor(channel, routes) ?? routeByAge(channel, accounts);
  return { kind: 'assign', rerouted: reroutedTo({ accountId: account.id, skipped }, route), why: 'disabled' };
}

/**
 * Where a message goes that waits for a closed account for too long; undefined where it stays. An account that it has left as
 * its rate was used up is none to come back to: two that are both too slow would pass it to and fro.
 */
function elsewhere(
  message: WaitingMessage,
  accounts: readonly Account[],
  routes: readonly Route[],
  closed: ReadonlyMap<string, ClosedReason>,
): WaitingDecision | undefined {
  const { id, accountId, channel } = message;
  const isClosed = closed.get(accountId);
  const route = routeFor(channel, routes);
  if (isClosed === undefined || route?.maxWaitMs == null || isBound(message) || message.test)
    return undefined;
  // Each account of a slowed channel is as slow.
  if (message.brake === 'slowed' && isClosed === 'rate_used_up') return undefined;
  if (message.waitedMs < route.maxWaitMs) return undefined;
  const skipped: SkippedAccount[] = [];
  for (const step of orderOf(route, id)) {
    if (step === accountId || message.refusedBy.includes(step)) continue;
    const reason = skippedBecause(step);
    if (reason === undefined) {
      const why = message.accountStatus === 'invalid' ? 'invalid' : isClosed;
      return { kind: 'assign', rerouted: reroutedTo({ accountId: step, skipped }, route), why };
    }
    skipped.push({ accountId: step, reason });
  }
  return undefined;

  function skippedBecause(step: string): LeftReason | undefined {
    const account = accounts.find((one) => one.id === step && one.channel === channel);
    if (account === undefined) return 'disabled';
    if (account.status === 'invalid') return 'invalid';
    return closed.get(step) ?? (message.leftForRate.includes(step) ? 'rate_used_up' : undefined);
  }
}

/** An account whose credential is refused is usable: probes find out when it is fixed. */
export function hasUsableAccount({
  test,
  accountStatus,
}: Pick<WaitingMessage, 'test' | 'accountStatus'>): boolean {
  return test || (accountStatus !== null && accountStatus !== 'disabled' && accountStatus !== 'deleted');
}
