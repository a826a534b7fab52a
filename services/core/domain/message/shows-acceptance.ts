import type { Report, ReportedMessage } from '../receipts/apply-report.ts';
import { canMove } from './message-state.ts';

/**
 * Returns whether a report proves that an earlier call delivered a waiting message to its provider, so that no other call is
 * made. The last call is the last one without an answer, if there is one. `delivered` proves it for any call; `undelivered`
 * decides only for the last call, and only if it is permanent, so that a temporary failure leaves the next call its chance;
 * `sent` only resolves an ambiguous last call.
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
