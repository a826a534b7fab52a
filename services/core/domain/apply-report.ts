import type { Engagement } from './engagement.ts';
import type { Failure } from './failure.ts';
import { canMove, type MessageState } from './message-state.ts';
import type { ReceiptKind } from './outcome.ts';

/** What receipts may change of a message for which no provider is called any more. */
export type ReportedMessage = {
  readonly status: MessageState;
  /** Nothing that a receipt of the same attempt says will change the status. */
  readonly final: boolean;
  /** The last attempt's number. */
  readonly attempt: number;
  readonly failure: Failure | null;
  /** Of how many segments the message consists, at least 1. */
  readonly segmentCount: number;
  /** What is known of segments that the provider reports on each by itself, by the provider's name of the segment. */
  readonly segments: Readonly<Record<string, ReceiptKind>>;
  /** Undelivered, and some of its segments may have arrived. */
  readonly partial: boolean;
  /** A bounce was reported after the delivery. */
  readonly lateBounce: boolean;
  /** When it was first opened, and so on, in milliseconds since the epoch. */
  readonly engagement: Readonly<Partial<Record<Engagement, number>>>;
};

/** What one receipt says of one message. */
export type Report = {
  /** Of which attempt; null where the provider does not tell. */
  readonly attempt: number | null;
  readonly state?: ReceiptKind | undefined;
  readonly isTemporary?: boolean | undefined;
  readonly failure?: Failure | undefined;
  readonly engagement?: Engagement | undefined;
  readonly segment?: string | undefined;
  /** When it happened, or where the provider does not tell, when the receipt arrived; milliseconds since the epoch. */
  readonly at: number;
};

export type AppliedReport = {
  /** The report said something new. */
  readonly applied: boolean;
  readonly message: ReportedMessage;
};

/** Follows a receipt. The status only ever rises in rank; a receipt that says nothing new leaves all as it was. */
export function applyReport(message: ReportedMessage, report: Report): AppliedReport {
  const engaged = engage(message, report);
  const reported = report.state === undefined ? engaged : applyState(engaged, report.state, report);
  return { applied: reported !== message, message: reported };
}

/** The first time counts, in whatever order the reports come. */
function engage(message: ReportedMessage, { engagement, at }: Report): ReportedMessage {
  if (engagement === undefined) return message;
  const known = message.engagement[engagement];
  if (known !== undefined && known <= at) return message;
  return { ...message, engagement: { ...message.engagement, [engagement]: at } };
}

function applyState(message: ReportedMessage, state: ReceiptKind, report: Report): ReportedMessage {
  if (message.segmentCount > 1 && report.segment !== undefined)
    return applySegment(message, report.segment, state, report);
  return move(message, state, report);
}

/** Delivered when all of them are; undelivered as soon as one is. */
function applySegment(
  message: ReportedMessage,
  segment: string,
  state: ReceiptKind,
  report: Report,
): ReportedMessage {
  const known = message.segments[segment];
  if (known !== undefined && RANK[known] >= RANK[state]) return message;
  const segments = { ...message.segments, [segment]: state };
  const noted = { ...message, segments };
  const states = Object.values(segments);
  if (states.includes('undelivered')) {
    const moved = move(noted, 'undelivered', report);
    return moved.status === 'undelivered' ? { ...moved, partial: true } : moved;
  }
  const isComplete = states.filter((one) => one === 'delivered').length >= message.segmentCount;
  return move(noted, isComplete ? 'delivered' : 'sent', report);
}

/** Of what a segment was reported to be: a later report of a lower rank changes nothing. */
const RANK: Readonly<Record<ReceiptKind, number>> = { sent: 0, delivered: 1, undelivered: 1 };

function move(message: ReportedMessage, state: ReceiptKind, report: Report): ReportedMessage {
  if (message.status === 'delivered' && state === 'undelivered')
    return message.lateBounce ? message : { ...message, lateBounce: true };
  // Tests break this (mutant: receipt-rank): a receipt only raises the rank of its message.
  if (!canMove(message.status, state) || !isReopened(message, report)) return message;
  return {
    ...message,
    status: state,
    final: state === 'delivered' || (state === 'undelivered' && report.isTemporary !== true),
    failure: state === 'undelivered' ? (report.failure ?? null) : null,
    partial: state === 'undelivered' && message.partial,
  };
}

/** An undelivered message is delivered after all only where the failure was temporary, and by the same attempt. */
function isReopened({ status, final, attempt }: ReportedMessage, report: Report): boolean {
  return status !== 'undelivered' || (!final && (report.attempt === null || report.attempt === attempt));
}
