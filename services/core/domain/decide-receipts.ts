import { applyReport, type Report, type ReportedMessage } from './apply-report.ts';
import type { Engagement } from './engagement.ts';
import type { Failure } from './failure.ts';
import type { MessageState } from './message-state.ts';
import type { ReceiptKind } from './outcome.ts';

/** A receipt that is due, and what is known of the message that it is about. */
export type DueReceipt = {
  readonly id: string;
  readonly tenantId: string;
  readonly provider: string;
  /** Of which attempt; null where nothing tells. */
  readonly attempt: number | null;
  readonly receipt: ReceiptKind | null;
  readonly temporary: boolean;
  readonly failure: Failure | null;
  readonly segment: string | null;
  readonly engagement: Engagement | null;
  readonly providerStatus: string | null;
  /** Whether a signature of the provider holds; null for a simulator's. */
  readonly verified: boolean | null;
  readonly happenedMs: number;
  /** The same for each repetition; null where all that come count. */
  readonly reportKey: string | null;
  /** Of the span in which the vendor's call was taken, and of the request that the message came with. */
  readonly calledIn: string | null;
  readonly sentIn: string | null;
  /** Since its arrival. */
  readonly waitedMs: number;
  /** Null where no message is found. */
  readonly seq: number | null;
  readonly purgeOn: string | null;
  /** The call that it reports on is not recorded yet. */
  readonly underWay: boolean;
  /** It was settled before. */
  readonly repeated: boolean;
  /** Null where the message has no result: it is waiting for a call, or gone. */
  readonly status: MessageState | null;
  readonly final: boolean | null;
  readonly lastAttempt: number | null;
  readonly failureShown: Failure | null;
  readonly segments: number | null;
  readonly segmentStates: Readonly<Record<string, ReceiptKind>> | null;
  readonly partial: boolean | null;
  readonly lateBounce: boolean | null;
  readonly engaged: Readonly<Partial<Record<Engagement, number>>> | null;
};

export type ReceiptEvent = {
  readonly seq: number;
  readonly purgeOn: string;
  readonly tenantId: string;
  readonly type: `message.${ReceiptKind | 'engagement' | 'receipt'}`;
  readonly applied: boolean;
  readonly details: Readonly<Record<string, unknown>>;
  readonly reportKey: string | null;
};

/** What one look at a receipt came to. */
type Decision = 'applied' | 'unapplied' | 'repeated' | 'waiting' | 'orphan';

export type ReceiptResult = Pick<DueReceipt, 'provider' | 'calledIn' | 'sentIn'> & {
  readonly result: Decision;
  /** The provider has told with it how the message ended. */
  readonly isEnd: boolean;
};

/** What follows from receipts. */
export type ReceiptDecisions = {
  /** Messages that changed. */
  readonly messages: readonly (ReportedMessage & { readonly seq: number; readonly purgeOn: string })[];
  readonly events: readonly ReceiptEvent[];
  readonly waiting: readonly { readonly id: string; readonly ms: number }[];
  /** Ids of those that are settled. */
  readonly done: readonly string[];
  readonly results: readonly ReceiptResult[];
};

/** One that names a message of which nothing is known is given up then. Vendors report within hours of a call. */
const ORPHAN_MS = 24 * 3_600_000;
const WAIT_MS_MIN = 1_000;
const WAIT_MS_MAX = 3_600_000;

/** Decides about receipts in their order; those of one message are applied one after the other. */
export function decideReceipts(due: readonly DueReceipt[]): ReceiptDecisions {
  const messages = new Map<number, ReportedMessage & { readonly seq: number; readonly purgeOn: string }>();
  const seen = new Set<string>();
  const events: ReceiptEvent[] = [];
  const waiting: { id: string; ms: number }[] = [];
  const done: string[] = [];
  const results: ReceiptResult[] = [];

  function decide(one: DueReceipt): Decision {
    const { seq, purgeOn } = one;
    if (one.underWay || (seq === null && one.waitedMs < ORPHAN_MS)) {
      waiting.push({ id: one.id, ms: waitMs(one) });
      return 'waiting';
    }
    done.push(one.id);
    if (seq === null || purgeOn === null) return 'orphan';
    const key = `${seq} ${one.reportKey}`;
    if (one.repeated || (one.reportKey !== null && seen.has(key))) return 'repeated';
    seen.add(key);
    const before = messages.get(seq) ?? messageOf(one);
    const after = before && applyReport(before, reportOf(one));
    if (after?.applied === true) messages.set(seq, { ...after.message, seq, purgeOn });
    const applied = after?.applied ?? false;
    events.push({
      seq,
      purgeOn,
      tenantId: one.tenantId,
      type: `message.${one.receipt ?? (one.engagement === null ? 'receipt' : 'engagement')}`,
      applied,
      details: detailsOf(one),
      reportKey: one.reportKey,
    });
    return applied ? 'applied' : 'unapplied';
  }

  const statusOf = ({ seq, status }: DueReceipt): MessageState | null =>
    (seq === null ? undefined : messages.get(seq)?.status) ?? status;
  for (const one of due) {
    const { provider, calledIn, sentIn } = one;
    const before = statusOf(one);
    const result = decide(one);
    const isEnd = !isEnded(before) && isEnded(statusOf(one));
    results.push({ provider, calledIn, sentIn, result, isEnd });
  }
  return { messages: [...messages.values()], events, waiting, done, results };
}

function isEnded(status: MessageState | null): boolean {
  return status === 'delivered' || status === 'undelivered';
}

/** The longer it has waited, the longer until the next look. */
function waitMs({ waitedMs }: DueReceipt): number {
  return Math.min(Math.max(WAIT_MS_MIN, waitedMs), WAIT_MS_MAX);
}

/** Undefined where the message has no result that a receipt could change. */
function messageOf(one: DueReceipt): ReportedMessage | undefined {
  if (one.status === null) return undefined;
  return {
    status: one.status,
    final: one.final ?? false,
    attempt: one.lastAttempt ?? 0,
    failure: one.failureShown,
    segmentCount: one.segments ?? 1,
    segments: one.segmentStates ?? {},
    partial: one.partial ?? false,
    lateBounce: one.lateBounce ?? false,
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
    at: one.happenedMs,
  };
}

function detailsOf({ attempt, failure, providerStatus, verified, engagement, segment }: DueReceipt) {
  const all = { attempt, failure, providerStatus, verified, engagement, segment };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
}
