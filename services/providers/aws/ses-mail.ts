import type { EmailContent, OutboundFor } from '#core/domain/message/content.ts';
import { attachmentsOf, headersOf, textsOf } from '../mail-content.ts';
import { asciiAddress, mailboxText, senderOf } from '../mailbox.ts';

/** Name of the tag that SES repeats in events. */
export const REFERENCE = 'despatch_message_id';

/** Bytes in one encoded word; encoded in base64 and with its delimiters it has at most 75 characters (RFC 2047). */
const ENCODED_WORD_BYTES_MAX = 45;
const CHARSET = 'UTF-8';

type Settings = {
  readonly from?: string | undefined;
  readonly fromName?: string | undefined;
  readonly configurationSetName?: string | undefined;
};

/** https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html */
export function sesMail({ id, to, content }: OutboundFor<'email'>, settings: Settings) {
  const { replyTo, subject } = content;
  const { text, html } = textsOf(content);
  const headers = sesHeaders(content);
  const attachments = attachmentsOf(content);
  const { configurationSetName } = settings;
  return {
    FromEmailAddress: mailbox(senderOf(content, settings)),
    Destination: { ToAddresses: [mailbox({ address: to })] },
    ...(replyTo === undefined ? {} : { ReplyToAddresses: [mailbox(replyTo)] }),
    Content: {
      Simple: {
        Subject: { Data: subject, Charset: CHARSET },
        Body: {
          ...(text === undefined ? {} : { Text: { Data: text, Charset: CHARSET } }),
          ...(html === undefined ? {} : { Html: { Data: html, Charset: CHARSET } }),
        },
        ...(headers.length === 0 ? {} : { Headers: headers }),
        ...(attachments.length === 0 ? {} : { Attachments: attachments.map(attachment) }),
      },
    },
    EmailTags: [{ Name: REFERENCE, Value: id }],
    ...(configurationSetName === undefined ? {} : { ConfigurationSetName: configurationSetName }),
  };
}

export function sesHeaders(content: EmailContent) {
  return headersOf(content).map(([Name, value]) => ({ Name, Value: headerText(value) }));
}

function attachment({ filename, contentType, content }: NonNullable<EmailContent['attachments']>[number]) {
  return {
    FileName: filename,
    ContentType: contentType,
    ContentDisposition: 'ATTACHMENT',
    ContentTransferEncoding: 'BASE64',
    RawContent: content,
  };
}

/** SES accepts only ASCII addresses: the domain is converted to its ASCII form, the name to encoded words. */
function mailbox({ name, address }: EmailContent['from']): string {
  const bare = asciiAddress(address);
  if (name === undefined || name === '') return bare;
  const isPlain = isAscii(name) && !name.includes('=?');
  return isPlain ? mailboxText({ name, address: bare }) : `${encodedWords(name)} <${bare}>`;
}

/**
 * Text that already looks like an encoded word is encoded again; otherwise a mail client would decode it to text that
 * nobody sent.
 */
function headerText(value: string): string {
  return isAscii(value) && !value.includes('=?') ? value : encodedWords(value);
}

function isAscii(text: string): boolean {
  return /^[\x20-\x7e]*$/.test(text);
}

/** Splits between characters, never inside one. */
function encodedWords(text: string): string {
  const words = [''];
  for (const character of text) {
    const word = (words.at(-1) ?? '') + character;
    if (Buffer.byteLength(word) > ENCODED_WORD_BYTES_MAX) words.push(character);
    else words[words.length - 1] = word;
  }
  return words.map((word) => `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=`).join(' ');
}
