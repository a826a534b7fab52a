import type { OutboundFor } from '#core/domain/content.ts';
import { asciiMailbox, mailboxText, replyToOf, senderOf } from '../mailbox.ts';
import { attachmentsOf, headersOf, textsOf } from '../mail-content.ts';
import type { Account } from './account.ts';

/** The mail tag that Resend repeats in each call; it carries the message's id. */
export const REFERENCE = 'despatch_message_id';

/**
 * https://resend.com/docs/api-reference/emails/send-email. The body of a message is identical to the byte on every attempt
 * and at any time: Resend refuses a different body with the same idempotency key.
 */
export function resendMail({ id, to, content }: OutboundFor<'email'>, config: Account['config']): string {
  const headers = headersOf(content);
  const attachments = attachmentsOf(content);
  const replyTo = replyToOf(content, config);
  return JSON.stringify({
    from: mailboxText(asciiMailbox(senderOf(content, config))),
    to: [to],
    ...(replyTo === undefined ? {} : { reply_to: mailboxText(asciiMailbox(replyTo)) }),
    subject: content.subject,
    ...textsOf(content),
    ...(headers.length === 0 ? {} : { headers: Object.fromEntries(headers) }),
    ...(attachments.length === 0
      ? {}
      : {
          attachments: attachments.map(({ filename, contentType, content: bytes }) => ({
            filename,
            content: bytes,
            content_type: contentType,
          })),
        }),
    tags: [{ name: REFERENCE, value: id }],
  });
}
