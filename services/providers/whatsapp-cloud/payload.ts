import type { WhatsappContent } from '#core/domain/message/content.ts';
import { whatsappTemplate } from '../whatsapp-template.ts';

type Parameter = Readonly<Record<string, unknown>>;

/** Returns the content-specific part of a message, https://developers.facebook.com/docs/whatsapp/cloud-api/messages. */
export function whatsappPayload(content: WhatsappContent): Record<string, unknown> {
  switch (content.kind) {
    case 'text':
      return { type: 'text', text: { body: content.body, preview_url: false } };
    case 'template':
      return { type: 'template', template: whatsappTemplate(content) };
    case 'media': {
      const { type, url, caption, filename } = content;
      return { type, [type]: defined({ link: url, caption, filename }) };
    }
  }
}

/** Removes undefined fields. */
function defined(record: Parameter): Parameter {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
