import type { OutboundFor } from '#core/domain/message/content.ts';
import { asciiMailbox, mailboxText, replyToOf, senderOf } from '../mailbox.ts';
import { attachmentsOf, headersOf, textsOf } from '../mail-content.ts';
import type { Account } from './account.ts';

/** The metadata field that Postmark repeats in each call; it carries the message's id. At most 20 characters. */
export const REFERENCE = 'despatch_message_id';

/** https://postmarkapp.com/developer/api/email-api#send-a-single-email */
export function postmarkMail(
  { id, to, content }: OutboundFor<'email'>,
  config: Account['config'],
): Record<string, unknown> {
  const { text, html } = textsOf(content);
  const replyTo = replyToOf(content, config);
  return {
    From: mailboxText(asciiMailbox(senderOf(content, config))),
    To: to,
    ...(replyTo === undefined ? {} : { ReplyTo: mailboxText(asciiMailbox(replyTo)) }),
    Subject: content.subject,
    ...(text === undefined ? {} : { TextBody: text }),
    ...(html === undefined ? {} : { HtmlBody: html }),
    Headers: headersOf(content).map(([Name, Value]) => ({ Name, Value })),
    Attachments: attachmentsOf(content).map(({ filename, contentType, content: bytes }) => ({
      Name: filename,
      Content: bytes,
      ContentType: contentType,
    })),
    Metadata: { [REFERENCE]: id },
    MessageStream: config.messageStream,
  };
}
