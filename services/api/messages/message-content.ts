import { AppError } from '#core/domain/fault/app-error.ts';
import type { EmailContent, PushContent, SmsContent, WhatsappContent } from '#core/domain/message/content.ts';
import { parseMailbox, type Mailbox } from '#core/domain/recipient/mailbox.ts';
import { mediaTypeOf } from '#core/domain/message/whatsapp-media.ts';
import type { SendMessage } from './send-message-schema.ts';

/** Returns a validated message's content as it is stored. */
export function contentOf(message: SendMessage): SmsContent | EmailContent | PushContent | WhatsappContent {
  switch (message.channel) {
    case 'sms':
      return { body: message.body };
    case 'email':
      return emailContent(message);
    case 'push': {
      const { title, body, data, badge, sound, collapseKey } = message;
      return definedFields({ title, body, data, badge, sound, collapseKey });
    }
    case 'whatsapp': {
      const { body, template, media } = message;
      if (template !== undefined) return { kind: 'template', ...template };
      if (media !== undefined) return { kind: 'media', ...media, type: mediaTypeOf(media) };
      return { kind: 'text', body: body as string };
    }
  }
}

function emailContent(message: Extract<SendMessage, { channel: 'email' }>): EmailContent {
  const { bodyHtml, bodyText, body, headers, attachments } = message;
  // Without any of the three fields the text is empty.
  const text = bodyText ?? (bodyHtml === undefined ? (body ?? '') : undefined);
  return {
    from: mailboxOf(message.from),
    subject: message.subject,
    ...definedFields({ text, html: bodyHtml, headers: headersOf(headers), attachments }),
    ...(message.replyTo === undefined ? {} : { replyTo: mailboxOf(message.replyTo) }),
  };
}

/** A header with a null value counts as absent. */
function headersOf(headers: Readonly<Record<string, string | null>> | undefined): EmailContent['headers'] {
  if (headers === undefined) return undefined;
  const given = Object.entries(headers).filter((pair): pair is [string, string] => pair[1] !== null);
  return Object.fromEntries(given);
}

function mailboxOf(text: string): Mailbox {
  const mailbox = parseMailbox(text);
  if (mailbox === undefined) throw new AppError('internal_error');
  return mailbox;
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Removes undefined fields. */
function definedFields<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}
