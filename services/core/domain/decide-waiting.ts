import { chooseAccount } from './choose-account.ts';
import type { Failure } from './failure.ts';
import { assertMove, type MessageState } from './message-state.ts';

/** A message that no claim took, as the database describes it; due, expired and over are by the database's clock. */
export type WaitingMessage = {
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
  /** Calls so far that may have reached the provider without an answer. */
  readonly ambiguous: number;
  readonly isDue: boolean;
  readonly isExpired: boolean;
  /** Only while `sending`: the worker's lease is over. */
  readonly isLeaseOver: boolean;
};

type Account = { readonly id: string; readonly channel: string };

/** Without a call: it ends, or is put aside. What is decided alike is the same object, and moved at once. */
export type WaitingMove = {
  readonly kind: 'move';
  readonly status: MessageState;
  /** Why it ends; null where it does not. */
  readonly failure: StoredEnd | null;
};

export type WaitingDecision =
  | WaitingMove
  /** Another account is to send it. */
  | { readonly kind: 'assign'; readonly accountId: string }
  /** Can be sent, but only out of its lane: the account has a rate limit, or another worker had the row locked. */
  | { readonly kind: 'lane' }
  /** The worker that began its attempt is gone. */
  | { readonly kind: 'lost' }
  /** Nothing to do now. */
  | { readonly kind: 'wait' };

type StoredEnd = Pick<Failure, 'class' | 'code'> & { readonly retryable: false };

/** Until the tenant is active again. */
const HOLD: WaitingMove = { kind: 'move', status: 'held', failure: null };
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
/** Of a message whose claim the database refuses. */
export const UNPROCESSABLE: StoredEnd = { class: 'unknown', code: 'unprocessable', retryable: false };

/**
 * Decides about a message that waits and was not claimed. A suspension comes before the expiry, since time in `held`
 * does not count; the expiry comes before the route.
 * @param accounts The tenant's, neither disabled nor deleted, the oldest first; used only where its own is not usable.
 */
export function decideWaiting(message: WaitingMessage, accounts: readonly Account[]): WaitingDecision {
  const { status } = message;
  if (status === 'sending') return { kind: message.isLeaseOver ? 'lost' : 'wait' };
  if (status !== 'queued' && status !== 'deferred') return { kind: 'wait' };
  const decision = decide(message, accounts);
  if (decision.kind === 'move') assertMove(status, decision.status);
  if (decision.kind === 'lane') assertMove(status, 'sending');
  return decision;
}

function decide(message: WaitingMessage, accounts: readonly Account[]): WaitingDecision {
  if (message.tenantStatus !== 'active') return HOLD;
  if (message.isExpired) return EXPIRE;
  if (!message.isDue) return { kind: 'wait' };
  if (hasUsableAccount(message)) return { kind: 'lane' };
  // After a call without an answer the message stays with its account: only there can a second copy be recognised.
  const bound = message.pinned || message.ambiguous > 0;
  const route = { channel: message.channel, pinned: bound ? message.accountId : null };
  const account = chooseAccount(accounts, route);
  if (account === undefined) return FAIL_WITHOUT_ROUTE;
  // The account has become usable since the message was read.
  if (account.id === message.accountId) return { kind: 'lane' };
  return { kind: 'assign', accountId: account.id };
}

/** An account whose credential is refused is usable: probes find out when it is fixed. */
export function hasUsableAccount({
  test,
  accountStatus,
}: Pick<WaitingMessage, 'test' | 'accountStatus'>): boolean {
  return test || (accountStatus !== null && accountStatus !== 'disabled' && accountStatus !== 'deleted');
}
