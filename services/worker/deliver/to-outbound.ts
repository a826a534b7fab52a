import type { EmailContent, OutboundMessage } from '#core/domain/message/content.ts';
import { withUnsubscribe } from '#core/domain/message/with-unsubscribe.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';

export type Links = { readonly receiptUrl: string | undefined; readonly unsubscribeUrl: string | undefined };

/**
 * Returns the message in the form that adapters receive.
 * @param content the loaded content; the message itself may only say where it is stored.
 * @param links where the vendor can report on the message, and where its recipient can unsubscribe; undefined if not possible.
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
    // The api validated the content for this channel before it was stored.
    content:
      unsubscribeUrl === undefined ? content : withUnsubscribe(content as EmailContent, unsubscribeUrl),
  } as OutboundMessage;
}
