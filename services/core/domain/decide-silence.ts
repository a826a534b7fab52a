import { routeFor } from './choose-account.ts';
import { reroutedTo, type Rerouted } from './failover.ts';
import { assertMove, type MessageState } from './message-state.ts';
import { orderOf, type Route } from './route.ts';
import type { ClosedReason, LeftReason, SkippedAccount } from './skipped-account.ts';

/** A sent message whose wait for a receipt is over, as the database describes it; expired and over are by its clock. */
export type SilentMessage = {
  /** These three are null where the message is gone. */
  readonly id: string | null;
  readonly channel: string | null;
  readonly tenantStatus: string | null;
  /** Null where it waits for a call again, or is gone. */
  readonly status: MessageState | null;
  readonly final: boolean | null;
  readonly test: boolean | null;
  /** The sender named the account. */
  readonly pinned: boolean | null;
  readonly deliveryGuarantee: 'at_least_once' | 'at_most_once' | null;
  /** The sender has its content deleted as soon as a provider has it. */
  readonly discard: boolean | null;
  readonly hasContent: boolean | null;
  /** That accepted it. */
  readonly accountId: string | null;
  /** It was accepted by its last call, and no receipt alone says so. */
  readonly isByCall: boolean | null;
  /** Receipts have said something of it, or of a copy of it. */
  readonly isTold: boolean | null;
  /** Its receipt is waited for. */
  readonly isAwaited: boolean | null;
  readonly isExpired: boolean | null;
  /** Somebody else has it locked. */
  readonly isBusy: boolean | null;
  /** Receipts of its account are not applied yet that came between its call and the end of the time. */
  readonly isBehind: boolean | null;
  /** Since the provider accepted it. */
  readonly silentMs: number | null;
  /** Accounts that were called for it. */
  readonly tried: readonly string[];
  /** Calls that may have reached a provider without an answer. */
  readonly ambiguous: number;
};

export type SilenceDecision =
  /** Another account is to send it too. */
  | { readonly kind: 'move'; readonly rerouted: Rerouted }
  /** It is to be looked at again. */
  | { readonly kind: 'later'; readonly ms: number }
  /** It stays with its account, whose receipt is waited for as ever. */
  | { readonly kind: 'stay' };

const STAY: SilenceDecision = { kind: 'stay' };
/** Between two looks at what cannot be decided yet. */
const BUSY: SilenceDecision = { kind: 'later', ms: 1_000 };
/** Between two looks for an account that can be called. */
const CLOSED: SilenceDecision = { kind: 'later', ms: 30_000 };
/** Between two looks at a tenant that may not send. */
const SUSPENDED: SilenceDecision = { kind: 'later', ms: 60_000 };

type Account = { readonly id: string; readonly channel: string; readonly status: string };

/**
 * Decides about a sent message on which its provider has not reported in time. The route in force now decides: where it names
 * no such time any more the message stays, and where it names a longer one that is waited for.
 * @param accounts The tenant's, neither disabled nor deleted.
 * @param routes Those that the tenant has set.
 * @param closed Accounts that cannot be called now.
 */
export function decideSilence(
  message: SilentMessage,
  accounts: readonly Account[],
  routes: readonly Route[],
  closed: ReadonlyMap<string, ClosedReason> = new Map(),
): SilenceDecision {
  const { id, channel, status, accountId, silentMs, tenantStatus } = message;
  if (id === null || channel === null) return STAY;
  // Tests break this (mutant: silent-status): what a receipt has moved on stays with its account.
  if (status !== 'sent') return STAY;
  if (accountId === null || silentMs === null || !mayMove(message)) return STAY;
  const route = routeFor(channel, routes);
  if (route?.receiptTimeoutMs == null) return STAY;
  if (silentMs < route.receiptTimeoutMs) return { kind: 'later', ms: route.receiptTimeoutMs - silentMs };
  if (tenantStatus !== 'active') return SUSPENDED;
  if (message.isBusy === true || message.isBehind === true) return BUSY;
  return nextOf(id, route);

  function nextOf(messageId: string, of: Route): SilenceDecision {
    const skipped: SkippedAccount[] = [];
    for (const step of orderOf(of, messageId)) {
      if (step === accountId || message.tried.includes(step)) continue;
      const reason = skippedBecause(step);
      if (reason === undefined) {
        assertMove('sent', 'queued');
        return { kind: 'move', rerouted: reroutedTo({ accountId: step, skipped }, of) };
      }
      skipped.push({ accountId: step, reason });
    }
    return skipped.some(({ reason }) => reason !== 'disabled') ? CLOSED : STAY;
  }

  function skippedBecause(step: string): LeftReason | undefined {
    const account = accounts.find((one) => one.id === step && one.channel === channel);
    if (account === undefined) return 'disabled';
    return account.status === 'invalid' ? 'invalid' : closed.get(step);
  }
}

/** Whether it may go out twice at all, and nothing was heard of it. */
function mayMove(message: SilentMessage): boolean {
  if (message.tenantStatus === 'deleting' || message.tenantStatus === 'deleted') return false;
  if (message.test !== false || message.pinned !== false || message.discard !== false) return false;
  // Tests break this (mutant: silent-once): what is to be called once at most goes out through one account.
  if (message.deliveryGuarantee !== 'at_least_once') return false;
  if (message.ambiguous > 0 || message.isByCall !== true) return false;
  if (message.hasContent !== true || message.isExpired !== false) return false;
  // Tests break this (mutant: silent-heard): what was heard of in time stays with its account.
  return message.final === false && message.isTold === false && message.isAwaited === true;
}
