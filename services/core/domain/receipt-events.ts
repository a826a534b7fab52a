import type { AppliedReport, ReportedMessage } from './apply-report.ts';
import { isWaiting, type MessageState } from './message-state.ts';

export type ReceiptEventType = `message.${MessageState | 'engagement' | 'receipt'}`;

/**
 * What a receipt is in the history of its message: the state that it has moved the message to, what it tells of the
 * recipient, both, or else no more than a receipt, whatever it reported. What has waited for another call is sent first.
 */
export function receiptEvents(
  before: ReportedMessage,
  after: AppliedReport,
): readonly [ReceiptEventType, ...ReceiptEventType[]] {
  const { status, engagement } = after.message;
  const isEngaged = engagement !== before.engagement;
  if (status !== before.status) {
    const further: ReceiptEventType[] = isEngaged ? ['message.engagement'] : [];
    return isWaiting(before.status) && status !== 'sent'
      ? ['message.sent', `message.${status}`, ...further]
      : [`message.${status}`, ...further];
  }
  return [isEngaged ? 'message.engagement' : 'message.receipt'];
}
