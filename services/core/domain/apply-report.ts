import type { Engagement } from './engagement.ts';
import type { Failure } from './failure.ts';
import { canMove, isWaiting, type MessageState } from './message-state.ts';
import type { ReceiptKind } from './outcome.ts';
import { endOfCopies, nextPartState, partOf, WHOLE, type Copies } from './reported-copies.ts';

/** What receipts may change of a message for which no call is under way. */
export type ReportedMessage = {
  readonly status: MessageState;
  /** Nothing that a receipt of the same copy says will change the status. */
  readonly final: boolean;
  /** The last attempt's number. */
  readonly attempt: number;
  readonly failure: Failure | null;
  /** Of how many segments the message consists, at least 1. */
  readonly segmentCount: number;
  readonly copies: Copies;
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
  /** The provider's own id of the message. */
  readonly vendorId?: string | undefined;
  /** When it happened, or where the provider does not tell, when the receipt arrived; milliseconds since the epoch. */
  readonly at: number;
};

export type AppliedReport = {
  /** The report said something new. */
  readonly applied: boolean;
  readonly message: ReportedMessage;
};

/**
 * Follows a receipt. The status only ever rises in rank; a receipt that says nothing new leaves all as it was. One of a message
 * that waits for another call shows that it was sent (`showsAcceptance`): from there it moves on.
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

/** The first time counts, in whatever order the reports come. */
function engage(message: ReportedMessage, { engagement, at }: Report): ReportedMessage {
  if (engagement === undefined) return message;
  const known = message.engagement[engagement];
  if (known !== undefined && known <= at) return message;
  return { ...message, engagement: { ...message.engagement, [engagement]: at } };
}

function applyState(message: ReportedMessage, state: ReceiptKind, report: Report): ReportedMessage {
  // It never was with a provider, as far as its record says, and that has been told.
  if (message.status !== 'delivered' && !canMove(message.status, 'delivered')) return message;
  const noted = note(message, state, report);
  // Tests break this (mutant: receipt-rank): a receipt only raises the rank of its message.
  const status = nextStatus(noted, state);
  const isMoved = status !== message.status;
  if (noted === message && !isMoved) return message;
  const end = endOfCopies(noted);
  const isFinal =
    status === 'undelivered' ? end?.status === status && !end.isTemporary : status === 'delivered';
  const isFailure = status === 'undelivered' && (isMoved || (isFinal && !message.final));
  return {
    ...noted,
    status,
    final: isFinal || (message.final && !isMoved),
    failure: isFailure ? (report.failure ?? null) : isMoved ? null : message.failure,
    partial: status === 'undelivered' && (message.partial || partOf(report, message).part !== WHOLE),
    lateBounce: end?.status === 'delivered' ? end.lateBounce : message.lateBounce,
  };
}

/** The same message where the report says nothing new of its copy. */
function note(message: ReportedMessage, state: ReceiptKind, report: Report): ReportedMessage {
  const { copy, part } = partOf(report, message);
  const known = message.copies[copy]?.[part];
  const next = nextPartState(known, state, report.isTemporary === true);
  if (next === known || next === undefined) return message;
  return { ...message, copies: { ...message.copies, [copy]: { ...message.copies[copy], [part]: next } } };
}

function nextStatus(message: ReportedMessage, state: ReceiptKind): MessageState {
  const known = endOfCopies(message)?.status ?? (state === 'undelivered' ? message.status : 'sent');
  return canMove(message.status, known) ? known : message.status;
}
