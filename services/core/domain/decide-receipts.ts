import { applyReport, type Report, type ReportedMessage } from './apply-report.ts';
import type { Engagement } from './engagement.ts';
import type { Failure } from './failure.ts';
import { isWaiting, type MessageState } from './message-state.ts';
import type { ReceiptKind } from './outcome.ts';
import { impliedCopies, type Copies } from './reported-copies.ts';
import { receiptEvents, type ReceiptEventType } from './receipt-events.ts';
import { RECEIPT_TIMEOUT_MS } from './settle.ts';
import { showsAcceptance } from './shows-acceptance.ts';
import { causeOfReport, type SuppressionCause } from './suppression-cause.ts';

/** A receipt that is due, and what is known of the message that it is about. */
export type DueReceipt = {
  readonly id: string;
  readonly tenantId: string;
  /** Which account was reported to; null for a simulator's, and for an answer that came late. */
  readonly accountId: string | null;
  readonly provider: string;
  /** Of which attempt; null where nothing tells. */
  readonly attempt: number | null;
  readonly receipt: ReceiptKind | null;
  readonly temporary: boolean;
  readonly failure: Failure | null;
  readonly segment: string | null;
  readonly engagement: Engagement | null;
  readonly providerStatus: string | null;
  readonly providerMessageId: string | null;
  /** Of an answer that came late: how long its receipt is awaited; null where none is. */
  readonly awaitMs: number | null;
  /** Whether a signature of the provider holds; null for a simulator's. */
  readonly verified: boolean | null;
  /** It was asked for what it says, and has not reported by itself. */
  readonly asked: boolean;
  readonly happenedMs: number;
  /** The same for each repetition; null where all that come count. */
  readonly reportKey: string | null;
  /** Of the span in which the vendor's call was taken, and of the request that the message came with. */
  readonly calledIn: string | null;
  readonly sentIn: string | null;
  /** Since its arrival. */
  readonly waitedMs: number;
  /** It was put off before. */
  readonly waiting: boolean;
  /** How many receipts of its account have been put off; null where it need not be. */
  readonly waitingOfAccount: number | null;
  /** Null where no message is found. */
  readonly seq: number | null;
  readonly purgeOn: string | null;
  /** A call for the message is, or somebody else has it. */
  readonly underWay: boolean;
  /** It waits for another call, and an earlier one had no answer. */
  readonly doubtful: boolean;
  /** It was settled before. */
  readonly repeated: boolean;
  /** Null where no message is found. */
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

/** What one look at a receipt came to. */
type Decision = 'applied' | 'unapplied' | 'repeated' | 'waiting' | 'orphan' | 'full';

export type ReceiptResult = Pick<DueReceipt, 'tenantId' | 'provider' | 'asked' | 'calledIn' | 'sentIn'> & {
  readonly result: Decision;
  /** The provider has told with it how the message ended. */
  readonly isEnd: boolean;
};

/** A message that receipts have changed. */
export type ChangedMessage = ReportedMessage & {
  readonly seq: number;
  readonly purgeOn: string;
  /** It waited for another call, which is not made. */
  readonly wasWaiting: boolean;
  /** By which account it is known now to have been sent; null where nothing new is known of that. */
  readonly via: {
    readonly accountId: string;
    readonly provider: string;
    readonly providerMessageId: string | null;
  } | null;
  /** It is known again, and this long its next receipt is waited for; null where nothing changes of that. */
  readonly awaitMs: number | null;
};

/** What follows from receipts. */
export type ReceiptDecisions = {
  readonly messages: readonly ChangedMessage[];
  readonly events: readonly ReceiptEvent[];
  readonly waiting: readonly { readonly id: string; readonly ms: number }[];
  /** Ids of those that are settled. */
  readonly done: readonly string[];
  /** Accounts that are told of receipts that were given up before their time. */
  readonly refused: readonly { readonly accountId: string; readonly reason: 'too_many_waiting' }[];
  /** Recipients who are to get nothing more, by the message that says so. */
  readonly suppress: readonly {
    readonly seq: number;
    readonly purgeOn: string;
    readonly cause: SuppressionCause;
  }[];
  readonly results: readonly ReceiptResult[];
  /** For how long the first of those that were never put off has waited. */
  readonly waitedMs: number;
};

/**
 * Of one account's receipts, how many may wait for their message. Those that overtake the record of their call are as many
 * as calls are under way, and wait for seconds; more than that is of an account that is shared with another system.
 */
export const WAITING_REPORTS_MAX = 10_000;
/** What has waited longer leaves half of the room to what has just come. */
const LONG_MS = 10 * 60_000;

/** One that names a message of which nothing is known is given up then. Vendors report within hours of a call. */
const ORPHAN_MS = 24 * 3_600_000;
const WAIT_MS_MIN = 1_000;
const WAIT_MS_MAX = 3_600_000;

/** Decides about receipts in their order; those of one message are applied one after the other. */
export function decideReceipts(due: readonly DueReceipt[]): ReceiptDecisions {
  const messages = new Map<number, ChangedMessage>();
  const seen = new Set<string>();
  const events: ReceiptEvent[] = [];
  const waiting: { id: string; ms: number }[] = [];
  const done: string[] = [];
  const results: ReceiptResult[] = [];
  const refused = new Set<string>();
  const suppress: { seq: number; purgeOn: string; cause: SuppressionCause }[] = [];
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
      // It is not used up: a call that comes may make of the message what it speaks of.
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
    // Simulators have no account: their recipients are chosen to fail, again and again.
    const cause = applied && one.accountId !== null ? causeOfReport(one) : null;
    if (cause !== null) suppress.push({ seq, purgeOn, cause });
    const types = receiptEvents(before, after);
    for (const [n, type] of types.entries()) {
      events.push({
        seq,
        purgeOn,
        tenantId: one.tenantId,
        type,
        applied,
        details: detailsOf(one),
        // One event of a receipt is enough to know its repetitions by.
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

/** Whether a receipt may wait, by how many of its account do. Simulators' are no more than the messages that they are about. */
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
  /** What receipts before it have changed of the message. */
  readonly known: ChangedMessage | undefined;
};

function changed(one: DueReceipt, { seq, purgeOn, before, after, known }: Change): ChangedMessage {
  const isFound = isWaiting(before.status) || before.status === 'unknown';
  // An answer that came late says itself whether anything is to follow it.
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

/** The longer it has waited, the longer until the next look. */
function waitMs({ waitedMs }: DueReceipt): number {
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
