import type { WhatsappContent } from '#core/domain/message/content.ts';
import { whatsappTemplate } from '../whatsapp-template.ts';

type Media = Extract<WhatsappContent, { kind: 'media' }>;

/** Returns the content-specific part of a request, https://developer.vonage.com/en/messages/concepts/whatsapp. */
export function whatsappFields(content: WhatsappContent): Readonly<Record<string, unknown>> {
  switch (content.kind) {
    case 'text':
      return { message_type: 'text', text: content.body };
    case 'media':
      return mediaFields(content);
    case 'template': {
      const { language, ...template } = whatsappTemplate(content);
      const deterministic = { policy: 'deterministic', ...language };
      // Vonage's own template format cannot carry header and button parameters, so this uses WhatsApp's format.
      return {
        message_type: 'custom',
        custom: { type: 'template', template: { ...template, language: deterministic } },
      };
    }
  }
}

function mediaFields({ type, url, caption, filename }: Media): Readonly<Record<string, unknown>> {
  const kind = type === 'document' ? 'file' : type;
  const file = Object.entries({ url, caption, name: filename }).filter(([, value]) => value !== undefined);
  return { message_type: kind, [kind]: Object.fromEntries(file) };
}
