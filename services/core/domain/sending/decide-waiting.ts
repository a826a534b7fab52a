import type { BrakeLevel } from '../tenant/brake.ts';
import { chooseAccount, routeFor } from '../routing/choose-account.ts';
import { reroutedTo, type Rerouted } from '../routing/failover.ts';
import type { Failure } from './failure.ts';
import { assertMove, canMove, isWaiting, type MessageState } from '../message/message-state.ts';
import { orderOf, routeByAge, type Route } from '../routing/route.ts';
import {
  skippedBecause,
  type ClosedReason,
  type EnabledAccount,
  type LeftReason,
  type SkippedAccount,
  type UnsentReason,
} from '../routing/skipped-account.ts';
import { SUPPRESSION_REASONS, type SuppressionReason } from '../recipient/suppression.ts';

/** A message that no claim took, as the database describes it; due, expired and lease ends are by the database's clock. */
export type WaitingMessage = {
  readonly id: string;
  readonly status: MessageState;
  readonly tenantStatus: string;
  readonly channel: string;
  /** Whether it was sent with a test key: a simulator answers, and no account is needed. */
  readonly test: boolean;
  readonly accountId: string;
  /** Null if the account is deleted, or there is none. */
  readonly accountStatus: string | null;
  /** Whether the sender named the account. */
  readonly pinned: boolean;
  /** Accounts that have refused the message permanently. */
  readonly refusedBy: readonly string[];
  /** Number of ambiguous calls so far. */
  readonly ambiguous: number;
  readonly isDue: boolean;
  readonly isExpired: boolean;
  /** Only for `sending`: whether the worker's lease has ended. */
  readonly isLeaseOver: boolean;
  /** How long the message could have been claimed, in milliseconds: since it was due, or since it was given to its account. */
  readonly waitedMs: number;
  /** Accounts that the message has left because their rate was used up. */
  readonly leftForRate: readonly string[];
  /** Brake of the tenant's channel; null without one, and for test messages. */
  readonly brake: BrakeLevel | null;
  /** Whether a provider accepted the message before and did not report on it in time. Default: false. */
  readonly isSent?: boolean;
  /** Why the recipient gets no messages of this kind; null if it is not suppressed. */
  readonly suppression: SuppressionReason | null;
};

/** The message ends or is held without a call. Equal decisions are the same object, so that they are stored together. */
export type WaitingMove = {
  readonly kind: 'move';
  readonly status: MessageState;
  /** Why the message ends; null if it does not end. */
  readonly failure: StoredEnd | null;
  /** Reason for the new state, if neither the state nor a failure states it. */
  readonly reason?: SuppressionReason | 'abuse_brake' | 'ambiguous_attempt';
};

export type WaitingDecision =
  | WaitingMove
  /** Another account sends the message. */
  | {
      readonly kind: 'assign';
      readonly rerouted: Rerouted;
      /** Why its own account does not. */
      readonly why: LeftReason;
    }
  /** The message can be sent, but only from its lane: its account has a rate limit, or changed during the claim. */
  | { readonly kind: 'lane' }
  /** The worker that began its attempt is dead. */
  | { readonly kind: 'lost' }
  /** The message goes back to `sent`, its state before it waited for another account, because no other account sends it. */
  | { readonly kind: 'return'; readonly why: UnsentReason }
  /** Nothing to do now. */
  | { readonly kind: 'wait' };

type StoredEnd = Pick<Failure, 'class' | 'code'> & { readonly retryable: false };

/** Held until the tenant is active again. */
const HOLD: WaitingMove = { kind: 'move', status: 'held', failure: null };
/** Held until the brake of its channel is lifted. */
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
/** A call got no answer, and no other follows. */
const LEAVE_UNKNOWN: WaitingMove = {
  kind: 'move',
  status: 'unknown',
  failure: null,
  reason: 'ambiguous_attempt',
};
const SUPPRESS = Object.fromEntries(
  SUPPRESSION_REASONS.map((reason) => [
    reason,
    { kind: 'move', status: 'suppressed', failure: null, reason },
  ]),
) as unknown as Readonly<Record<SuppressionReason, WaitingMove>>;
/** The time that the sender named has come. */
const QUEUE: WaitingMove = { kind: 'move', status: 'queued', failure: null };
/** The end of a message whose claim the database rejects. */
export const UNPROCESSABLE: StoredEnd = { class: 'unknown', code: 'unprocessable', retryable: false };

/**
 * Decides about a waiting message that was not claimed. The order of checks: suspension and a holding brake come before the
 * expiry, because time in `held` does not count; a scheduled message stays so until its instant; the expiry comes before the
 * suppression of the recipient, and that before the route.
 * @param accounts the tenant's accounts that are neither disabled nor deleted, the oldest first; used only if the message's own
 * account is unusable or closed.
 * @param routes the tenant's routes; used in the same cases.
 * @param closed accounts that cannot be called now. A message that has waited for one of them for longer than its route allows
 * moves to the next account that can be called. Default: none.
 */
export function decideWaiting(
  message: WaitingMessage,
  accounts: readonly EnabledAccount[],
  routes: readonly Route[],
  closed: ReadonlyMap<string, ClosedReason> = NONE_CLOSED,
): WaitingDecision {
  const { status } = message;
  if (status === 'sending') return { kind: message.isLeaseOver ? 'lost' : 'wait' };
  if (status !== 'scheduled' && status !== 'queued' && status !== 'deferred') return { kind: 'wait' };
  const decision = stillCounted(message, decide(message, accounts, routes, closed));
  if (decision.kind === 'return') assertMove(status, 'sent');
  if (decision.kind === 'move') assertMove(status, decision.status);
  if (decision.kind === 'lane' || decision.kind === 'assign') assertMove(status, 'sending');
  return decision;
}

/**
 * In the final states that the decision would set, receipts do not count, but receipts of a call that was accepted, or that got
 * no answer, may still arrive.
 */
function stillCounted(
  { status, isSent, ambiguous }: WaitingMessage,
  decision: WaitingDecision,
): WaitingDecision {
  if (decision.kind !== 'move' || isWaiting(decision.status)) return decision;
  if (isSent === true) return RETURNS[decision.status] ?? decision;
  return ambiguous > 0 && canMove(status, 'unknown') ? LEAVE_UNKNOWN : decision;
}

/** By the state in which the message would end. */
const RETURNS: Readonly<Partial<Record<MessageState, WaitingDecision>>> = {
  expired: { kind: 'return', why: 'expired' },
  suppressed: { kind: 'return', why: 'suppressed' },
  failed: { kind: 'return', why: 'disabled' },
};

function decide(
  message: WaitingMessage,
  accounts: readonly EnabledAccount[],
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

/** After an ambiguous call the message stays with its account, because only that provider can detect a duplicate. */
function isBound({ pinned, ambiguous }: WaitingMessage): boolean {
  return pinned || ambiguous > 0;
}

/** Decides about a message whose account is disabled or deleted. */
function reassign(
  message: WaitingMessage,
  accounts: readonly EnabledAccount[],
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
 * Returns where a message goes that has waited too long for a closed account; undefined if it stays. It does not return to an
 * account that it left because of the rate: otherwise two slow accounts would pass it back and forth.
 */
function elsewhere(
  message: WaitingMessage,
  accounts: readonly EnabledAccount[],
  routes: readonly Route[],
  closed: ReadonlyMap<string, ClosedReason>,
): WaitingDecision | undefined {
  const { id, accountId, channel } = message;
  const isClosed = closed.get(accountId);
  const route = routeFor(channel, routes);
  if (isClosed === undefined || route?.maxWaitMs == null || isBound(message) || message.test)
    return undefined;
  // In a slowed channel every account is as slow.
  if (message.brake === 'slowed' && isClosed === 'rate_used_up') return undefined;
  if (message.waitedMs < route.maxWaitMs) return undefined;
  const skipped: SkippedAccount[] = [];
  for (const step of orderOf(route, id)) {
    if (step === accountId || message.refusedBy.includes(step)) continue;
    const left = message.leftForRate.includes(step) ? 'rate_used_up' : undefined;
    const reason = skippedBecause(step, channel, accounts, closed) ?? left;
    if (reason === undefined) {
      const why = message.accountStatus === 'invalid' ? 'invalid' : isClosed;
      return { kind: 'assign', rerouted: reroutedTo({ accountId: step, skipped }, route), why };
    }
    skipped.push({ accountId: step, reason });
  }
  return undefined;
}

/** Returns whether the account can be used. One with a refused credential can: probes detect when it is fixed. */
export function hasUsableAccount({
  test,
  accountStatus,
}: Pick<WaitingMessage, 'test' | 'accountStatus'>): boolean {
  return test || (accountStatus !== null && accountStatus !== 'disabled' && accountStatus !== 'deleted');
}
