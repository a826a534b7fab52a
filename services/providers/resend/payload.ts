import { detectMimeType } from 'nodemailer/lib/mime-funcs/mime-types';
import type { OutboundFor } from '#core/domain/message/content.ts';
import { asciiMailbox, mailboxText, replyToOf, senderOf } from '../mailbox.ts';
import { attachmentsOf, headersOf, textsOf } from '../mail-content.ts';
import type { Account } from './account.ts';

/** The mail tag that Resend repeats in each call; it carries the message's id. */
export const REFERENCE = 'despatch_message_id';

/** What an extension without a type of its own has. */
const UNKNOWN_TYPE = 'application/octet-stream';

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
    ...(attachments.length === 0 ? {} : { attachments: attachments.map(attachment) }),
    tags: [{ name: REFERENCE, value: id }],
  });
}

/**
 * Resend accepts a mail with an attachment whose type is not that of its name's extension (`data.txt` as `text/csv`), and never
 * sends it. Without a type it takes that of the extension.
 */
function attachment({ filename, contentType, content }: ReturnType<typeof attachmentsOf>[number]) {
  const usual = detectMimeType(filename);
  const [type = ''] = contentType.split(';', 1);
  const isSent = usual === UNKNOWN_TYPE || usual === type.toLowerCase();
  return { filename, content, ...(isSent ? { content_type: contentType } : {}) };
}
