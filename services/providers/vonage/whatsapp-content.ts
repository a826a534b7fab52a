import type { WhatsappContent } from '#core/domain/content.ts';
import { whatsappTemplate } from '../whatsapp-template.ts';

type Media = Extract<WhatsappContent, { kind: 'media' }>;

/** The part of a request that says what it is, https://developer.vonage.com/en/messages/concepts/whatsapp. */
export function whatsappFields(content: WhatsappContent): Readonly<Record<string, unknown>> {
  switch (content.kind) {
    case 'text':
      return { message_type: 'text', text: content.body };
    case 'media':
      return mediaFields(content);
    case 'template': {
      const { language, ...template } = whatsappTemplate(content);
      const deterministic = { policy: 'deterministic', ...language };
      // A template of Vonage's own form has no place for what fills header and buttons, so this is WhatsApp's.
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
