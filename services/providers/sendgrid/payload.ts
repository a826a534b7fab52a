import type { EmailContent, OutboundFor } from '#core/domain/message/content.ts';
import { asciiMailbox, senderOf } from '../mailbox.ts';
import { attachmentsOf, headersOf, textsOf } from '../mail-content.ts';

/** The field that SendGrid repeats in each event; it carries the message's id. */
export const REFERENCE = 'despatch_message_id';

/** https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send */
export function sendgridMail(
  { id, to, content }: OutboundFor<'email'>,
  account: Parameters<typeof senderOf>[1],
): Record<string, unknown> {
  const headers = headersOf(content);
  const attachments = attachmentsOf(content);
  return {
    personalizations: [{ to: [{ email: to }], custom_args: { [REFERENCE]: id } }],
    from: mailbox(senderOf(content, account)),
    ...(content.replyTo === undefined ? {} : { reply_to: mailbox(content.replyTo) }),
    subject: content.subject,
    content: parts(content),
    // SendGrid refuses an empty object.
    ...(headers.length === 0 ? {} : { headers: Object.fromEntries(headers) }),
    ...(attachments.length === 0 ? {} : { attachments: attachments.map(attachment) }),
  };
}

function mailbox(sent: EmailContent['from']) {
  const { name, address } = asciiMailbox(sent);
  return { email: address, ...(name === undefined ? {} : { name }) };
}

/** SendGrid requires plain text to come first. */
function parts(content: EmailContent) {
  const { text, html } = textsOf(content);
  return [
    ...(text === undefined ? [] : [{ type: 'text/plain', value: text }]),
    ...(html === undefined ? [] : [{ type: 'text/html', value: html }]),
  ];
}

/** SendGrid refuses a media type with parameters. */
function attachment({ filename, contentType, content }: ReturnType<typeof attachmentsOf>[number]) {
  const [type] = contentType.split(';', 1);
  return { content, filename, type, disposition: 'attachment' };
}
