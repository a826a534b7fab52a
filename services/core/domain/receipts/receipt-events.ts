import type { AppliedReport, ReportedMessage } from './apply-report.ts';
import { isWaiting, type MessageState } from '../message/message-state.ts';

export type ReceiptEventType = `message.${MessageState | 'engagement' | 'receipt'}`;

/**
 * Returns the events of a receipt in its message's history: the state that it moved the message to, the recipient's engagement,
 * both, or only `message.receipt`. A message that waited for another call becomes sent first.
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
