import type { EmailContent, OutboundFor } from '#core/domain/message/content.ts';

type Attachment = NonNullable<EmailContent['attachments']>[number];

/**
 * Minimum length to redact: shorter texts occur in every sentence, so redacting them would destroy the vendor's text, and
 * they reveal nothing.
 */
const TELLING_LENGTH = 4;
/** Maximum length to redact: no vendor repeats a longer text, and searching for it would be slow. */
const REPEATED_LENGTH_MAX = 4_096;

/**
 * Returns the texts of a mail. Vendors refuse a mail without any text, and most refuse an empty part, so such a mail
 * contains one space.
 */
export function textsOf({ text, html }: EmailContent): { readonly text?: string; readonly html?: string } {
  const given = { ...(text ? { text } : {}), ...(html ? { html } : {}) };
  return text || html ? given : { text: ' ' };
}

export function headersOf({
  headers = {},
}: EmailContent): readonly (readonly [name: string, value: string])[] {
  return Object.entries(headers);
}

export function attachmentsOf({ attachments = [] }: EmailContent): readonly Attachment[] {
  return attachments;
}

/** Returns the values of a mail that a vendor may repeat and that must not be stored. */
export function hiddenInMail({ to, content, receiptUrl = '' }: OutboundFor<'email'>): string[] {
  const { subject, text = '', html = '', attachments = [] } = content;
  const texts = [subject, text, html, ...attachments.map(({ filename }) => filename)];
  return [
    to,
    receiptUrl,
    ...texts.filter(({ length }) => length >= TELLING_LENGTH && length <= REPEATED_LENGTH_MAX),
  ];
}
