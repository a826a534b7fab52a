import MailComposer from 'nodemailer/lib/mail-composer';
import type { EmailContent, OutboundFor } from '#core/domain/message/content.ts';
import { asciiAddress, senderOf } from '../mailbox.ts';
import type { Account } from './account.ts';
import { encodedHeader } from './encoded-header.ts';

type Attachment = NonNullable<EmailContent['attachments']>[number];

export type Mail = {
  readonly envelope: { readonly from: string; readonly to: readonly string[] };
  readonly messageId: string;
  readonly raw: Buffer;
  /** Whether it has octets above 127, which a server must be told of (RFC 6152). */
  readonly is8Bit: boolean;
};

/**
 * A line of a mail has at most 998 octets (RFC 5322, 2.1.1). Matched only from the start of a line, so that each line is read
 * once: an attachment can have millions of characters.
 */
const OVERLONG_LINE = /^[^\r\n]{999}/m;

/** Composes the mail as bytes. Its Message-ID is derived from the message's id, so it is the same on every attempt. */
export async function composeMail(message: OutboundFor<'email'>, config: Account['config']): Promise<Mail> {
  const { content, to, id } = message;
  const sender = senderOf(content, config);
  // The composer converts the domains in the headers alone, and not every server takes others in the envelope.
  const from = { ...sender, address: asciiAddress(sender.address) };
  const replyTo = content.replyTo ?? (config.replyTo === undefined ? undefined : { address: config.replyTo });
  const messageId = `<${id}@${from.address.split('@').at(-1) ?? 'localhost'}>`;
  const raw = await new MailComposer({
    from: mailbox(from),
    to: mailbox({ address: to }),
    ...(replyTo === undefined ? {} : { replyTo: mailbox(replyTo) }),
    // A mail with neither part gets an empty text.
    text: content.text ?? (content.html === undefined ? '' : undefined),
    html: content.html,
    headers: headersOf(content),
    attachments: (content.attachments ?? []).map(attachment),
    messageId,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
    .compile()
    .build();
  // The composer encodes all else.
  const is8Bit = (content.attachments ?? []).some(isMail) && /[\x80-\xff]/.test(raw.toString('latin1'));
  return { envelope: { from: from.address, to: [to] }, messageId, raw, is8Bit };
}

function headersOf({ subject, headers = {} }: EmailContent) {
  return Object.entries({ ...headers, Subject: subject }).map(([key, value]) => {
    const prepared = encodedHeader(key, value);
    return {
      key,
      value: prepared === undefined ? value : { prepared: true, foldLines: true, value: prepared },
    };
  });
}

function mailbox({ name, address }: EmailContent['from']) {
  return { name: name ?? '', address };
}

/** A mail within the mail cannot be encoded (RFC 2046, 5.2.1). */
function isMail({ contentType }: Pick<Attachment, 'contentType'>): boolean {
  return /^message\//i.test(contentType);
}

function attachment({ filename, contentType, content }: Attachment) {
  const bytes = Buffer.from(content, 'base64');
  // A mail with longer lines is attached as a file.
  const isFile = isMail({ contentType }) && OVERLONG_LINE.test(bytes.toString('latin1'));
  return {
    filename,
    contentType: isFile ? 'application/octet-stream' : contentType,
    content: bytes,
    contentDisposition: 'attachment',
  };
}
