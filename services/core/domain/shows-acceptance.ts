import type { Report, ReportedMessage } from './apply-report.ts';
import { canMove } from './message-state.ts';

/**
 * Whether a report shows that a message which waits for another call has been taken by an earlier one, so that no other call
 * is due. That it was delivered shows that of any call; where it cannot be delivered, the last call's word decides. That it
 * is on its way only answers the question that a call without an answer has left. A temporary failure leaves the call that
 * is due its chance.
 */
export function showsAcceptance(
  { status, attempt }: Pick<ReportedMessage, 'status' | 'attempt'>,
  report: Report,
  isDoubtful: boolean,
): boolean {
  if (!canMove(status, 'sent')) return false;
  const isOfLast = report.attempt === null || report.attempt === attempt;
  switch (report.state) {
    case 'delivered':
      return true;
    case 'undelivered':
      return isOfLast && report.isTemporary !== true;
    case 'sent':
      return isOfLast && isDoubtful;
    case undefined:
      return false;
  }
}
