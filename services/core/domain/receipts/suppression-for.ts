import type { AppliedReport, ReportedMessage } from './apply-report.ts';
import { canMove } from '../message/message-state.ts';
import { isEarlier } from './reported-copies.ts';
import {
  causeOfFailure,
  causeOfReport,
  isHardBounce,
  type SuppressionCause,
} from '../recipient/suppression-cause.ts';
import type { DueReceipt } from './due-receipt.ts';

/** Why a recipient is to be suppressed. */
export type SuppressionNeed = {
  readonly cause: SuppressionCause;
  /** Whether it counts towards a brake: rates are of messages, and each message counts once. */
  readonly isHit: boolean;
};

/** Returns whether, and why, the recipient of a reported message is to be suppressed. */
export function suppressionFor(
  one: DueReceipt,
  before: ReportedMessage,
  after: AppliedReport,
): SuppressionNeed | undefined {
  // Simulators have no account. They suppress nobody: their recipients are chosen in order to fail repeatedly.
  const cause = one.accountId === null ? null : causeOfReport(one);
  if (cause === null || !(after.applied || isFirstNamed(cause, before))) return undefined;
  return { cause, isHit: isFirst(cause, before, after.message) };
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
