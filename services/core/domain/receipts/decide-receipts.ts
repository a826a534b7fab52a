import { applyReport } from './apply-report.ts';
import { DAY_MS } from '../text/duration.ts';
import { isWaiting, type MessageState } from '../message/message-state.ts';
import { receiptEvents } from './receipt-events.ts';
import { showsAcceptance } from '../message/shows-acceptance.ts';
import { changedMessage } from './changed-message.ts';
import { messageOf, reportOf, type DueReceipt } from './due-receipt.ts';
import type {
  ChangedMessage,
  ReceiptDecision,
  ReceiptDecisions,
  ReceiptEvent,
  ReceiptResult,
} from './receipt-decisions.ts';
import { suppressionFor } from './suppression-for.ts';
import { createWaitLimit, waitMs } from './wait-limit.ts';

/** A receipt whose message is not found is given up after this time. Vendors report within hours of a call. */
const ORPHAN_MS = DAY_MS;

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
  const mayWait = createWaitLimit();

  function decide(one: DueReceipt): ReceiptDecision {
    const { seq, purgeOn } = one;
    if (one.underWay || (seq === null && one.waitedMs < ORPHAN_MS)) return postpone(one);
    if (seq === null || purgeOn === null || one.status === null) return settle(one, 'orphan');
    const key = `${seq} ${one.reportKey}`;
    if (one.repeated || (one.reportKey !== null && seen.has(key))) return settle(one, 'repeated');
    const before = messages.get(seq) ?? messageOf(one, one.status);
    const report = reportOf(one);
    if (isWaiting(before.status) && !showsAcceptance(before, report, one.doubtful)) {
      // The receipt is postponed, not settled: a later call may bring the message into the state that it reports.
      if (report.state !== undefined || report.engagement !== undefined) return postpone(one);
    }
    seen.add(key);
    const after = applyReport(before, report);
    const { applied } = after;
    if (applied) {
      const change = { seq, purgeOn, before, after: after.message, known: messages.get(seq) };
      messages.set(seq, changedMessage(one, change));
    }
    const need = suppressionFor(one, before, after);
    if (need !== undefined) suppress.push({ seq, purgeOn, ...need });
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
    return settle(one, applied ? 'applied' : 'unapplied');
  }

  function postpone(one: DueReceipt): ReceiptDecision {
    if (mayWait(one)) {
      waiting.push({ id: one.id, ms: waitMs(one) });
      return 'waiting';
    }
    if (one.accountId !== null) refused.add(one.accountId);
    return settle(one, 'full');
  }

  function settle({ id }: DueReceipt, decision: ReceiptDecision): ReceiptDecision {
    done.push(id);
    return decision;
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

function isEnded(status: MessageState | null): boolean {
  return status === 'delivered' || status === 'undelivered';
}

function detailsOf({ attempt, failure, providerStatus, verified, engagement, segment }: DueReceipt) {
  const all = { attempt, failure, providerStatus, verified, engagement, segment };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
}
