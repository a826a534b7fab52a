import type { Report, ReportedMessage } from './apply-report.ts';
import type { Engagement } from './engagement.ts';
import type { Failure } from '../sending/failure.ts';
import type { MessageState } from '../message/message-state.ts';
import type { ReceiptKind } from '../sending/outcome.ts';
import { impliedCopies, type Copies } from './reported-copies.ts';

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

/** Returns the stored state of the receipt's message. */
export function messageOf(one: DueReceipt, status: MessageState): ReportedMessage {
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

export function reportOf(one: DueReceipt): Report {
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
