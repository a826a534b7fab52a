import { applyReport, type Report, type ReportedMessage } from './apply-report.ts';
import { DAY_MS, HOUR_MS } from '../text/duration.ts';
import type { Engagement } from './engagement.ts';
import type { Failure } from '../sending/failure.ts';
import { canMove, isWaiting, type MessageState } from '../message/message-state.ts';
import type { ReceiptKind } from '../sending/outcome.ts';
import { impliedCopies, isEarlier, type Copies } from './reported-copies.ts';
import { receiptEvents, type ReceiptEventType } from './receipt-events.ts';
import { RECEIPT_TIMEOUT_MS } from '../sending/settle.ts';
import { showsAcceptance } from '../message/shows-acceptance.ts';
import {
  causeOfFailure,
  causeOfReport,
  isHardBounce,
  type SuppressionCause,
} from '../recipient/suppression-cause.ts';

/** A due receipt, with the stored facts about its message. */
export type DueReceipt = {
  readonly id: string;
  readonly tenantId: string;
  /** The account of the receipt; null for a simulator's, and for a provider's answer that came after its attempt was settled. */
  readonly accountId: string | null;
  readonly provider: string;
  /** The attempt that the receipt is about; null if unknown. */
  readonly attempt: number | null;
  readonly receipt: ReceiptKind | null;
  readonly temporary: boolean;
  readonly failure: Failure | null;
  readonly segment: string | null;
  readonly engagement: Engagement | null;
  readonly providerStatus: string | null;
  readonly providerMessageId: string | null;
  /** For a late answer: how long its receipt is awaited; null if none is awaited. */
  readonly awaitMs: number | null;
  /** Whether the provider's signature is valid; null for a simulator's receipt. */
  readonly verified: boolean | null;
  /** Whether the receipt comes from a lookup instead of a report by the vendor. */
  readonly asked: boolean;
  readonly happenedMs: number;
  /** Equal for repetitions of one report; null if every report counts. */
  readonly reportKey: string | null;
  /** Trace contexts: of the request in which the vendor's call was stored, and of the request that sent the message. */
  readonly calledIn: string | null;
  readonly sentIn: string | null;
  /** Time since the receipt's arrival. */
  readonly waitedMs: number;
  /** Whether the receipt was postponed before. */
  readonly waiting: boolean;
  /** Number of postponed receipts of its account; null if the number is not needed. */
  readonly waitingOfAccount: number | null;
  /** Null if no message was found. */
  readonly seq: number | null;
  readonly purgeOn: string | null;
  /** Whether a call for the message is under way, or another transaction has locked the message. */
  readonly underWay: boolean;
  /** Whether the message waits for another call after an ambiguous one. */
  readonly doubtful: boolean;
  /** Whether the report was settled before. */
  readonly repeated: boolean;
  /** Null if no message was found. */
  readonly status: MessageState | null;
  readonly final: boolean | null;
  readonly lastAttempt: number | null;
  readonly failureShown: Failure | null;
  readonly segments: number | null;
  readonly segmentStates: Copies | null;
  readonly partial: boolean | null;
  readonly lateBounce: boolean | null;
  readonly engaged: Readonly<Partial<Record<Engagement, number>>> | null;
};

export type ReceiptEvent = {
  readonly seq: number;
  readonly purgeOn: string;
  readonly tenantId: string;
  readonly type: ReceiptEventType;
  readonly applied: boolean;
  readonly details: Readonly<Record<string, unknown>>;
  readonly reportKey: string | null;
};

/** The result of deciding about a receipt once. */
type Decision = 'applied' | 'unapplied' | 'repeated' | 'waiting' | 'orphan' | 'full';

export type ReceiptResult = Pick<DueReceipt, 'tenantId' | 'provider' | 'asked' | 'calledIn' | 'sentIn'> & {
  readonly result: Decision;
  /** Whether the provider reported the end of the message with this receipt. */
  readonly isEnd: boolean;
};

/** A message that receipts have changed. */
export type ChangedMessage = ReportedMessage & {
  readonly seq: number;
  readonly purgeOn: string;
  /** Whether the message waited for another call, which is then not made. */
  readonly wasWaiting: boolean;
  /** The account that is now known to have sent the message; null if the receipt proves nothing new about that. */
  readonly via: {
    readonly accountId: string;
    readonly provider: string;
    readonly providerMessageId: string | null;
  } | null;
  /** How long the next receipt is awaited, as the message's state is known again; null if the wait does not change. */
  readonly awaitMs: number | null;
};

/** The changes that follow from receipts. */
export type ReceiptDecisions = {
  readonly messages: readonly ChangedMessage[];
  readonly events: readonly ReceiptEvent[];
  readonly waiting: readonly { readonly id: string; readonly ms: number }[];
  /** Ids of the receipts that are settled. */
  readonly done: readonly string[];
  /** Accounts whose tenants are told that receipts were given up early. */
  readonly refused: readonly { readonly accountId: string; readonly reason: 'too_many_waiting' }[];
  /** Recipients to suppress, each with the message that causes it. */
  readonly suppress: readonly {
    readonly seq: number;
    readonly purgeOn: string;
    readonly cause: SuppressionCause;
    /** Whether it counts towards a brake: rates are of messages, and each message counts once. */
    readonly isHit: boolean;
  }[];
  readonly results: readonly ReceiptResult[];
  /** The longest wait of the receipts that were never postponed. */
  readonly waitedMs: number;
};

/**
 * Maximum number of one account's receipts that wait for their message. Receipts that arrive before their call is recorded are as
 * many as calls are under way, and wait for seconds; more than that means that the account is shared with another system.
 */
export const WAITING_REPORTS_MAX = 10_000;
/** Receipts that have waited longer may occupy only half of that number; the other half is left to new ones. */
const LONG_MS = 10 * 60_000;

/** A receipt whose message is not found is given up after this time. Vendors report within hours of a call. */
const ORPHAN_MS = DAY_MS;
const WAIT_MS_MIN = 1_000;
const WAIT_MS_MAX = HOUR_MS;

/** Decides about receipts in their order; receipts of one message are applied one after the other. */
export function decideReceipts(due: readonly DueReceipt[]): ReceiptDecisions {
  const messages = new Map<number, ChangedMessage>();
  const seen = new Set<string>();
  const events: ReceiptEvent[] = [];
  const waiting: { id: string; ms: number }[] = [];
  const done: string[] = [];
  const results: ReceiptResult[] = [];
  const refused = new Set<string>();
  const suppress: ReceiptDecisions['suppress'][number][] = [];
  const isAdmitted = createWaitingRoom();

  function decide(one: DueReceipt): Decision {
    const { seq, purgeOn } = one;
    if (one.underWay || (seq === null && one.waitedMs < ORPHAN_MS)) return putOff();
    if (seq === null || purgeOn === null || one.status === null) return settled('orphan');
    const key = `${seq} ${one.reportKey}`;
    if (one.repeated || (one.reportKey !== null && seen.has(key))) return settled('repeated');
    const before = messages.get(seq) ?? messageOf(one, one.status);
    const report = reportOf(one);
    if (isWaiting(before.status) && !showsAcceptance(before, report, one.doubtful)) {
      // The receipt is postponed, not settled: a later call may bring the message into the state that it reports.
      if (report.state !== undefined || report.engagement !== undefined) return putOff();
    }
    seen.add(key);
    const after = applyReport(before, report);
    if (after.applied)
      messages.set(
        seq,
        changed(one, { seq, purgeOn, before, after: after.message, known: messages.get(seq) }),
      );
    const { applied } = after;
    // Simulators have no account. They suppress nobody: their recipients are chosen in order to fail repeatedly.
    const cause = one.accountId === null ? null : causeOfReport(one);
    if (cause !== null && (applied || isFirstNamed(cause, before)))
      suppress.push({ seq, purgeOn, cause, isHit: isFirst(cause, before, after.message) });
    const types = receiptEvents(before, after);
    for (const [n, type] of types.entries()) {
      events.push({
        seq,
        purgeOn,
        tenantId: one.tenantId,
        type,
        applied,
        details: detailsOf(one),
        // One event per receipt stores the key, which is enough to detect repetitions.
        reportKey: n === 0 ? one.reportKey : null,
      });
    }
    return settled(applied ? 'applied' : 'unapplied');

    function putOff(): Decision {
      if (isAdmitted(one)) {
        waiting.push({ id: one.id, ms: waitMs(one) });
        return 'waiting';
      }
      if (one.accountId !== null) refused.add(one.accountId);
      return settled('full');
    }
    function settled(decision: Decision): Decision {
      done.push(one.id);
      return decision;
    }
  }

  const statusOf = ({ seq, status }: DueReceipt): MessageState | null =>
    (seq === null ? undefined : messages.get(seq)?.status) ?? status;
  for (const one of due) {
    const { tenantId, provider, asked, calledIn, sentIn } = one;
    const before = statusOf(one);
    const result = decide(one);
    const isEnd = !isEnded(before) && isEnded(statusOf(one));
    results.push({ tenantId, provider, asked, calledIn, sentIn, result, isEnd });
  }
  return {
    messages: [...messages.values()],
    events,
    waiting,
    done,
    refused: [...refused].map((accountId) => ({ accountId, reason: 'too_many_waiting' })),
    suppress,
    results,
    waitedMs: due.reduce(
      (longest, { waiting: isBack, waitedMs }) => (isBack ? longest : Math.max(longest, waitedMs)),
      0,
    ),
  };
}

/**
 * Returns a function that decides whether a receipt may wait, by the number of its account's waiting receipts. Simulators'
 * receipts always may, because there are no more of them than messages.
 */
function createWaitingRoom(): (one: DueReceipt) => boolean {
  const waiting = new Map<string, number>();
  return ({ accountId, waiting: isBack, waitingOfAccount, waitedMs }) => {
    if (accountId === null) return true;
    const others = (waiting.get(accountId) ?? waitingOfAccount ?? 0) - (isBack ? 1 : 0);
    const isIn = others < (waitedMs > LONG_MS ? WAITING_REPORTS_MAX / 2 : WAITING_REPORTS_MAX);
    waiting.set(accountId, isIn ? others + 1 : others);
    return isIn;
  };
}

type Change = {
  readonly seq: number;
  readonly purgeOn: string;
  readonly before: ReportedMessage;
  readonly after: ReportedMessage;
  /** The changes that earlier receipts of the batch have made to the message. */
  readonly known: ChangedMessage | undefined;
};

function changed(one: DueReceipt, { seq, purgeOn, before, after, known }: Change): ChangedMessage {
  const isFound = isWaiting(before.status) || before.status === 'unknown';
  // A late answer states itself whether a receipt follows it.
  const found = one.accountId === null ? one.awaitMs : RECEIPT_TIMEOUT_MS;
  const isSent = after.status === 'sent';
  return {
    ...after,
    final: isSent && isFound ? found === null : after.final,
    seq,
    purgeOn,
    wasWaiting: isWaiting(before.status) || known?.wasWaiting === true,
    via: isFound ? viaOf(one) : (known?.via ?? null),
    awaitMs: isSent ? (isFound ? found : (known?.awaitMs ?? null)) : null,
  };
}

function viaOf({ accountId, provider, providerMessageId }: DueReceipt): ChangedMessage['via'] {
  return accountId === null ? null : { accountId, provider, providerMessageId };
}

function isEnded(status: MessageState | null): boolean {
  return status === 'delivered' || status === 'undelivered';
}

/** Returns when a receipt is looked at again, in milliseconds: the longer it has waited, the later. */
export function waitMs({ waitedMs }: Pick<DueReceipt, 'waitedMs'>): number {
  return Math.min(Math.max(WAIT_MS_MIN, waitedMs), WAIT_MS_MAX);
}

function messageOf(one: DueReceipt, status: MessageState): ReportedMessage {
  const { lastAttempt } = one;
  const [attempt, final, lateBounce] = [lastAttempt ?? 0, one.final ?? false, one.lateBounce ?? false];
  return {
    status,
    final,
    attempt,
    failure: one.failureShown,
    segmentCount: one.segments ?? 1,
    copies: one.segmentStates ?? impliedCopies(attempt, status, { final, lateBounce }),
    partial: one.partial ?? false,
    lateBounce,
    engagement: one.engaged ?? {},
  };
}

function reportOf(one: DueReceipt): Report {
  return {
    attempt: one.attempt,
    state: one.receipt ?? undefined,
    isTemporary: one.temporary,
    failure: one.failure ?? undefined,
    engagement: one.engagement ?? undefined,
    segment: one.segment ?? undefined,
    vendorId: one.providerMessageId ?? undefined,
    at: one.happenedMs,
  };
}

function detailsOf({ attempt, failure, providerStatus, verified, engagement, segment }: DueReceipt) {
  const all = { attempt, failure, providerStatus, verified, engagement, segment };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
}

/**
 * Returns whether a report that changes nothing may be the first that names the cause: a lookup, or the first report of the same end,
 * may not have said why, and the record shows only one failure.
 */
function isFirstNamed(cause: SuppressionCause, before: ReportedMessage): boolean {
  // As in `applyReport`: any other message was never with a provider.
  if (before.status !== 'delivered' && !canMove(before.status, 'delivered')) return false;
  if (cause === 'hard_bounce') return !showsHardBounce(before);
  return cause === 'opt_out' && causeOfFailure(before.failure) !== cause;
}

/** Returns whether a report is the first of its message with this cause; a message may have several segments, and several copies. */
function isFirst(cause: SuppressionCause, before: ReportedMessage, after: ReportedMessage): boolean {
  if (cause === 'complaint') return before.engagement.complained === undefined;
  return cause === 'hard_bounce' && hasBounced(after) && !hasBounced(before);
}

/** Of the last copy of a delivered message, and of bounces after a delivery, the reason is not known any more. */
function hasBounced(message: ReportedMessage): boolean {
  const { status, copies } = message;
  if (showsHardBounce(message)) return true;
  if (status === 'undelivered') return false;
  return Object.entries(copies).some(([copy, parts]) => {
    const states = Object.values(parts);
    return states.includes('bounced') || (states.includes('undelivered') && !isEarlier(copy, message));
  });
}

/** An undelivered message shows whether its end was a hard bounce; copies before the last state it themselves. */
function showsHardBounce({ status, failure, copies }: ReportedMessage): boolean {
  if (status === 'undelivered' && isHardBounce(failure)) return true;
  return Object.values(copies).some((parts) => Object.values(parts).includes('hard'));
}
