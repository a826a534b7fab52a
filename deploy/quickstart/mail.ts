import PostalMime, { type Address, type Attachment } from 'postal-mime';
import type { ReceivedMail } from '#providers/smtp/stand-in.ts';

export type Mail = {
  /** Counted from 1. */
  readonly id: number;
  readonly at: string;
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string | null;
  readonly html: string | null;
  readonly attachments: readonly MailAttachment[];
  readonly envelope: ReceivedMail['envelope'];
  /** Header and body as received. */
  readonly raw: string;
};

export type MailAttachment = {
  readonly filename: string | null;
  readonly mimeType: string;
  readonly bytes: number;
};

/** Never rejects: a mail that cannot be parsed is shown with its envelope. */
export async function readMail(id: number, { raw, envelope, at }: ReceivedMail): Promise<Mail> {
  const parsed = await PostalMime.parse(raw).catch(() => undefined);
  const attachments = parsed?.attachments ?? [];
  return {
    id,
    at: new Date(at).toISOString(),
    from: addressesOf(parsed?.from === undefined ? [] : [parsed.from]) || envelope.from,
    to: addressesOf(parsed?.to ?? []) || envelope.to.join(', '),
    subject: parsed?.subject ?? '',
    text: parsed?.text ?? null,
    html: parsed?.html === undefined ? null : withImages(parsed.html, attachments),
    attachments: attachments.map((one) => ({
      filename: one.filename,
      mimeType: one.mimeType,
      bytes: bytesOf(one).length,
    })),
    envelope,
    raw,
  };
}

/** Returns the content of an attachment by parsing the mail again: keeping it would double the mail's memory. */
export async function readAttachment({ raw }: Mail, index: number): Promise<Buffer | undefined> {
  const parsed = await PostalMime.parse(raw).catch(() => undefined);
  const attachment = parsed?.attachments[index];
  return attachment === undefined ? undefined : bytesOf(attachment);
}

const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** The HTML refers to images in the same mail by content id; the frame may load nothing, so they are inlined. */
function withImages(html: string, attachments: readonly Attachment[]): string {
  return html.replace(/(["'(])cid:([^"')\s>]+)/gi, (reference: string, before: string, id: string) => {
    const image = attachments.find(({ contentId }) => contentId === `<${id}>`);
    if (image === undefined || !IMAGES.has(image.mimeType)) return reference;
    return `${before}data:${image.mimeType};base64,${bytesOf(image).toString('base64')}`;
  });
}

function bytesOf({ content }: Attachment): Buffer {
  return typeof content === 'string' ? Buffer.from(content) : Buffer.from(content as ArrayBuffer);
}

function addressesOf(addresses: readonly Address[]): string {
  return addresses
    .map(({ name, address }) => (name === '' ? (address ?? '') : `${name} <${address ?? ''}>`))
    .join(', ');
}

export type FileHeaders = Readonly<Record<'content-type' | 'content-disposition', string>>;

/**
 * Returns headers that tell a browser how to handle an attachment: images and plain text are displayed, everything else is
 * downloaded, because HTML from a sender must not run as a page of ours.
 */
export function attachmentHeaders({ filename, mimeType }: MailAttachment): FileHeaders {
  const isText = mimeType === 'text/plain';
  const isShown = isText || IMAGES.has(mimeType);
  const name = (filename ?? 'attachment').toWellFormed();
  const plain = name.replace(/[^\w. -]/g, '_');
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return {
    'content-type': isText ? 'text/plain; charset=utf-8' : isShown ? mimeType : 'application/octet-stream',
    'content-disposition': `${isShown ? 'inline' : 'attachment'}; filename="${plain}"; filename*=UTF-8''${encoded}`,
  };
}
