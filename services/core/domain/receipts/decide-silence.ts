import { routeFor } from '../routing/choose-account.ts';
import { reroutedTo, type Rerouted } from '../routing/failover.ts';
import { assertMove, type MessageState } from '../message/message-state.ts';
import { orderOf, type Route } from '../routing/route.ts';
import {
  skippedBecause,
  type ClosedReason,
  type EnabledAccount,
  type SkippedAccount,
} from '../routing/skipped-account.ts';

/**
 * A sent message whose receipt timeout has passed, as the database describes it. The database's clock decides `isExpired` and the
 * timeout.
 */
export type SilentMessage = {
  /** This and the next fields are null where the message is gone. */
  readonly id: string | null;
  readonly channel: string | null;
  readonly tenantStatus: string | null;
  /** Whether a brake holds its channel. */
  readonly isHeld: boolean;
  /** Null where the message waits for a call again, or is gone. */
  readonly status: MessageState | null;
  readonly final: boolean | null;
  readonly test: boolean | null;
  /** Whether the sender named the account. */
  readonly pinned: boolean | null;
  readonly deliveryGuarantee: 'at_least_once' | 'at_most_once' | null;
  /** Whether the sender wants the content deleted as soon as a provider has it. */
  readonly discard: boolean | null;
  readonly hasContent: boolean | null;
  /** The account that accepted it. */
  readonly accountId: string | null;
  /** Whether its last call was accepted; false if only a receipt says that it was sent. */
  readonly isByCall: boolean | null;
  /** Whether receipts reported on it or on a copy of it. */
  readonly isTold: boolean | null;
  /** Whether a receipt is awaited. */
  readonly isAwaited: boolean | null;
  readonly isExpired: boolean | null;
  /** Whether another transaction has it locked. */
  readonly isBusy: boolean | null;
  /** Whether receipts of its account that arrived between its call and the timeout are not applied yet. */
  readonly isBehind: boolean | null;
  /** Milliseconds since the provider accepted it. */
  readonly silentMs: number | null;
  /** Accounts that were called for it. */
  readonly tried: readonly string[];
  /** Number of calls that may have reached a provider but got no answer. */
  readonly ambiguous: number;
};

export type SilenceDecision =
  /** Another account sends it as well. */
  | { readonly kind: 'move'; readonly rerouted: Rerouted }
  /** It is looked at again later. */
  | { readonly kind: 'later'; readonly ms: number }
  /** It stays with its account, whose receipt is still awaited. */
  | { readonly kind: 'stay' };

const STAY: SilenceDecision = { kind: 'stay' };
/** Time until the next look at a message that another transaction has locked. */
const BUSY: SilenceDecision = { kind: 'later', ms: 1_000 };
/** Time until the next look while receipts wait: each look costs the database as much as applying some of them. */
const BEHIND: SilenceDecision = { kind: 'later', ms: 5_000 };
/** Time until the next look for an account that can be called. */
const CLOSED: SilenceDecision = { kind: 'later', ms: 30_000 };
/** Time until the next look at a message of a suspended tenant or a held channel. */
const SUSPENDED: SilenceDecision = { kind: 'later', ms: 60_000 };

/**
 * Decides about a sent message on which its provider did not report in time, by the route in force now: if the route has no
 * receipt timeout any more the message stays, and if it has a longer one the message waits for that.
 * @param accounts the tenant's accounts that are neither disabled nor deleted.
 * @param routes the routes that the tenant has set.
 * @param closed accounts that cannot be called now.
 */
export function decideSilence(
  message: SilentMessage,
  accounts: readonly EnabledAccount[],
  routes: readonly Route[],
  closed: ReadonlyMap<string, ClosedReason> = new Map(),
): SilenceDecision {
  const { id, channel, status, accountId, silentMs, tenantStatus } = message;
  if (id === null || channel === null) return STAY;
  // Tests break this (mutant: silent-status): a message that a receipt has moved on stays with its account.
  if (status !== 'sent') return STAY;
  if (accountId === null || silentMs === null || !mayMove(message)) return STAY;
  const route = routeFor(channel, routes);
  if (route?.receiptTimeoutMs == null) return STAY;
  if (silentMs < route.receiptTimeoutMs) return { kind: 'later', ms: route.receiptTimeoutMs - silentMs };
  // Its new place would be in `held`, where nothing asks about it, until long after its expiry.
  if (tenantStatus !== 'active' || message.isHeld) return SUSPENDED;
  if (message.isBehind === true) return BEHIND;
  if (message.isBusy === true) return BUSY;
  return nextOf(id, route);

  function nextOf(messageId: string, of: Route): SilenceDecision {
    const skipped: SkippedAccount[] = [];
    for (const step of orderOf(of, messageId)) {
      if (step === accountId || message.tried.includes(step)) continue;
      const reason = skippedBecause(step, of.channel, accounts, closed);
      if (reason === undefined) {
        assertMove('sent', 'queued');
        return { kind: 'move', rerouted: reroutedTo({ accountId: step, skipped }, of) };
      }
      skipped.push({ accountId: step, reason });
    }
    return skipped.some(({ reason }) => reason !== 'disabled') ? CLOSED : STAY;
  }
}

/** Whether the message may be sent twice at all and no receipt reported on it. */
function mayMove(message: SilentMessage): boolean {
  if (message.tenantStatus === 'deleting' || message.tenantStatus === 'deleted') return false;
  if (message.test !== false || message.pinned !== false || message.discard !== false) return false;
  // Tests break this (mutant: silent-once): an at-most-once message is sent through one account only.
  if (message.deliveryGuarantee !== 'at_least_once') return false;
  if (message.ambiguous > 0 || message.isByCall !== true) return false;
  if (message.hasContent !== true || message.isExpired !== false) return false;
  // Tests break this (mutant: silent-heard): a message with a receipt in time stays with its account.
  return message.final === false && message.isTold === false && message.isAwaited === true;
}
