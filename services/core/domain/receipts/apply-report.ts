import type { Engagement } from './engagement.ts';
import type { Failure } from '../sending/failure.ts';
import { canMove, isWaiting, type MessageState } from '../message/message-state.ts';
import type { ReceiptKind } from '../sending/outcome.ts';
import { causeOfFailure, isHardBounce } from '../recipient/suppression-cause.ts';
import {
  endOfCopies,
  isEarlier,
  isPossible,
  nextPartState,
  partOf,
  WHOLE_COPY,
  type Copies,
} from './reported-copies.ts';

/** The fields of a message, without a call under way, that receipts may change. */
export type ReportedMessage = {
  readonly status: MessageState;
  /** Whether no further receipt of the same copy can change the status. */
  readonly final: boolean;
  /** Number of the last attempt. */
  readonly attempt: number;
  readonly failure: Failure | null;
  /** Number of segments of the message, at least 1. */
  readonly segmentCount: number;
  readonly copies: Copies;
  /** Whether the message is undelivered but some of its segments may have arrived. */
  readonly partial: boolean;
  /** Whether a bounce was reported after the delivery. */
  readonly lateBounce: boolean;
  /** First time of each engagement, in milliseconds since the epoch. */
  readonly engagement: Readonly<Partial<Record<Engagement, number>>>;
};

/** What one receipt reports about one message. */
export type Report = {
  /** Number of the attempt; null if the provider does not report it. */
  readonly attempt: number | null;
  readonly state?: ReceiptKind | undefined;
  readonly isTemporary?: boolean | undefined;
  readonly failure?: Failure | undefined;
  readonly engagement?: Engagement | undefined;
  readonly segment?: string | undefined;
  /** The provider's own id of the message. */
  readonly vendorId?: string | undefined;
  /** Time of the event, or of the receipt's arrival if the provider reports no time; milliseconds since the epoch. */
  readonly at: number;
};

export type AppliedReport = {
  /** Whether the report contained anything new. */
  readonly applied: boolean;
  readonly message: ReportedMessage;
};

/**
 * Applies a receipt to a message. The status only rises in rank; a receipt without news changes nothing. A receipt for a message
 * that waits for another call proves that it was sent (`showsAcceptance`), so the status moves on from `sent`.
 */
export function applyReport(message: ReportedMessage, report: Report): AppliedReport {
  const engaged = engage(sentAfterAll(message, report), report);
  const reported = report.state === undefined ? engaged : applyState(engaged, report.state, report);
  return { applied: reported !== message, message: reported };
}

function sentAfterAll(message: ReportedMessage, { state }: Report): ReportedMessage {
  const isFound = state !== undefined && isWaiting(message.status) && canMove(message.status, 'sent');
  return isFound ? { ...message, status: 'sent', final: false, failure: null } : message;
}

/** Keeps the earliest time, in whatever order the reports arrive. */
function engage(message: ReportedMessage, { engagement, at }: Report): ReportedMessage {
  if (engagement === undefined) return message;
  const known = message.engagement[engagement];
  if (known !== undefined && known <= at) return message;
  return { ...message, engagement: { ...message.engagement, [engagement]: at } };
}

function applyState(message: ReportedMessage, state: ReceiptKind, report: Report): ReportedMessage {
  // The record says that the message was never with a provider, and this end has been published.
  if (message.status !== 'delivered' && !canMove(message.status, 'delivered')) return message;
  const noted = note(message, state, report);
  // Tests break this (mutant: receipt-rank): a receipt only raises the rank of its message.
  const status = nextStatus(noted, state);
  const isMoved = status !== message.status;
  if (noted === message && !isMoved) return withCause(message, state, report);
  const end = endOfCopies(noted);
  const isFinal =
    status === 'undelivered' ? end?.status === status && !end.isTemporary : status === 'delivered';
  const isFailure = status === 'undelivered' && (isMoved || (isFinal && !message.final));
  const moved = {
    ...noted,
    status,
    final: isFinal || (message.final && !isMoved),
    failure: isFailure ? (report.failure ?? null) : isMoved ? null : message.failure,
    partial: status === 'undelivered' && (message.partial || partOf(report, message).part !== WHOLE_COPY),
    lateBounce: end?.status === 'delivered' ? end.lateBounce : message.lateBounce,
  };
  // Another segment may have failed before, for another reason.
  return isMoved ? moved : withCause(moved, state, report);
}

/**
 * Shows the cause that a further report of the same end names, a hard bounce rather than an opt-out: a lookup, or the first report,
 * may not have said why.
 */
function withCause(message: ReportedMessage, state: ReceiptKind, report: Report): ReportedMessage {
  const { failure = null, attempt, isTemporary = false } = report;
  const isOfEnd = message.status === 'undelivered' && state === 'undelivered' && !isTemporary;
  const [named, shown] = [causeOfFailure(failure), causeOfFailure(message.failure)];
  const isNamed = named === 'hard_bounce' ? shown !== named : named !== null && shown === null;
  // Failures of earlier copies decide nothing.
  if (!isOfEnd || !isNamed || (attempt ?? message.attempt) !== message.attempt) return message;
  return { ...message, failure };
}

/** Returns the same object if the report contains nothing new about its copy. */
function note(message: ReportedMessage, state: ReceiptKind, report: Report): ReportedMessage {
  const place = partOf(report, message);
  const { copy, part } = place;
  const known = message.copies[copy]?.[part];
  const { isTemporary = false, failure = null } = report;
  const reported = nextPartState(known, state, isTemporary);
  // The first report of an earlier copy's end may not have said why.
  const isHard = state === 'undelivered' && !isTemporary && isHardBounce(failure) && isEarlier(copy, message);
  const next = isHard && reported === 'undelivered' ? 'hard' : reported;
  if (next === known || next === undefined) return message;
  if (known === undefined && !isPossible(message, place)) return message;
  return { ...message, copies: { ...message.copies, [copy]: { ...message.copies[copy], [part]: next } } };
}

function nextStatus(message: ReportedMessage, state: ReceiptKind): MessageState {
  const known = endOfCopies(message)?.status ?? (state === 'undelivered' ? message.status : 'sent');
  return canMove(message.status, known) ? known : message.status;
}
