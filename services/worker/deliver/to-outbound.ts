import type { EmailContent, OutboundMessage } from '#core/domain/content.ts';
import { withUnsubscribe } from '#core/domain/with-unsubscribe.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';

export type Links = { readonly receiptUrl: string | undefined; readonly unsubscribeUrl: string | undefined };

/**
 * The message as an adapter gets it.
 * @param content of the message, which itself may say only where it is stored.
 * @param links where the vendor can report on it, and where its recipient can unsubscribe; undefined where nobody can.
 */
export function toOutbound(
  message: ClaimedMessage,
  content: unknown,
  { receiptUrl, unsubscribeUrl }: Links,
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
    content:
      unsubscribeUrl === undefined ? content : withUnsubscribe(content as EmailContent, unsubscribeUrl),
  } as OutboundMessage;
}
