import type { OutboundMessage } from '#core/domain/content.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';

/**
 * The message as an adapter gets it.
 * @param content of the message, which itself may say only where it is stored.
 * @param receiptUrl where the vendor can report on it; undefined where no receipts are asked for.
 */
export function toOutbound(
  message: ClaimedMessage,
  content: unknown,
  receiptUrl: string | undefined,
): OutboundMessage {
  return {
    id: message.id,
    channel: message.channel,
    to: message.address,
    ...(message.sender === null ? {} : { from: message.sender }),
    expiresAt: message.expiresAt.getTime(),
    ...(receiptUrl === undefined ? {} : { receiptUrl }),
    attempt: message.attempt,
    // The api validated the content for this very channel before it was stored.
    content,
  } as OutboundMessage;
}
