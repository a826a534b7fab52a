import { chooseAccount } from './choose-account.ts';
import type { Failure } from './failure.ts';
import { assertMove, type MessageState } from './message-state.ts';
import type { Route } from './route.ts';
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
  /** Accounts that will never take it; known where its own cannot be used. */
  readonly refusedBy: readonly string[];
  /** Calls so far that may have reached the provider without an answer. */
  readonly ambiguous: number;
  readonly isDue: boolean;
  readonly isExpired: boolean;
  /** Only while `sending`: the worker's lease is over. */
  readonly isLeaseOver: boolean;
  /** Why its recipient gets nothing of this kind; null where nothing says so. */
  readonly suppression: SuppressionReason | null;
};

type Account = { readonly id: string; readonly channel: string };

/** Without a call: it ends, or is put aside. What is decided alike is the same object, and moved at once. */
export type WaitingMove = {
  readonly kind: 'move';
  readonly status: MessageState;
  /** Why it ends; null where it does not. */
  readonly failure: StoredEnd | null;
  /** Why it is in its new state, where neither that nor a failure says so. */
  readonly reason?: SuppressionReason;
};

export type WaitingDecision =
  | WaitingMove
  /** Another account is to send it. */
  | { readonly kind: 'assign'; readonly accountId: string }
  /** Can be sent, but only out of its lane: the account has a rate limit, or it changed as it was claimed. */
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
 * Decides about a message that waits and was not claimed. A suspension comes before the expiry, since time in `held`
 * does not count; the expiry comes before the recipient's own wish, and that before the route.
 * @param accounts The tenant's, neither disabled nor deleted, the oldest first; used only where its own is not usable.
 * @param routes Those that the tenant has set; used as the accounts are.
 */
export function decideWaiting(
  message: WaitingMessage,
  accounts: readonly Account[],
  routes: readonly Route[],
): WaitingDecision {
  const { status } = message;
  if (status === 'sending') return { kind: message.isLeaseOver ? 'lost' : 'wait' };
  if (status !== 'scheduled' && status !== 'queued' && status !== 'deferred') return { kind: 'wait' };
  const decision = decide(message, accounts, routes);
  if (decision.kind === 'move') assertMove(status, decision.status);
  if (decision.kind === 'lane') assertMove(status, 'sending');
  return decision;
}

function decide(
  message: WaitingMessage,
  accounts: readonly Account[],
  routes: readonly Route[],
): WaitingDecision {
  if (message.tenantStatus !== 'active') return HOLD;
  if (message.isExpired) return EXPIRE;
  if (!message.isDue) return { kind: 'wait' };
  if (message.status === 'scheduled') return QUEUE;
  if (message.suppression !== null) return SUPPRESS[message.suppression];
  if (hasUsableAccount(message)) return { kind: 'lane' };
  // After a call without an answer the message stays with its account: only there can a second copy be recognised.
  const bound = message.pinned || message.ambiguous > 0;
  const { id, channel, accountId } = message;
  const willing = accounts.filter((account) => !message.refusedBy.includes(account.id));
  const choice = chooseAccount(willing, { id, channel, pinned: bound ? accountId : null }, routes);
  if (choice === undefined) return FAIL_WITHOUT_ROUTE;
  const { account } = choice;
  // The account has become usable since the message was read.
  if (account.id === accountId) return { kind: 'lane' };
  return { kind: 'assign', accountId: account.id };
}

/** An account whose credential is refused is usable: probes find out when it is fixed. */
export function hasUsableAccount({
  test,
  accountStatus,
}: Pick<WaitingMessage, 'test' | 'accountStatus'>): boolean {
  return test || (accountStatus !== null && accountStatus !== 'disabled' && accountStatus !== 'deleted');
}
