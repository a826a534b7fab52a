import type { EmailContent, OutboundFor } from '#core/domain/content.ts';

type Attachment = NonNullable<EmailContent['attachments']>[number];

/** Shorter texts are in every sentence: taken out of a vendor's words they would leave none, and they say nothing. */
const TELLING_LENGTH = 4;
/** A longer text is repeated by no vendor, and looking for it would take long. */
const REPEATED_LENGTH_MAX = 4_096;

/** What a mail says. Vendors refuse one without any text and most an empty part, so such a mail carries one space. */
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

/** What a vendor may repeat of a mail and nobody is to store. */
export function hiddenInMail({ to, content, receiptUrl = '' }: OutboundFor<'email'>): string[] {
  const { subject, text = '', html = '', attachments = [] } = content;
  const told = [subject, text, html, ...attachments.map(({ filename }) => filename)];
  return [
    to,
    receiptUrl,
    ...told.filter(({ length }) => length >= TELLING_LENGTH && length <= REPEATED_LENGTH_MAX),
  ];
}
