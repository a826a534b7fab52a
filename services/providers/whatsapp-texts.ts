import type { TemplateButton, TemplateHeader, WhatsappContent } from '#core/domain/message/content.ts';

/**
 * Minimum length to redact: shorter texts occur in every sentence, so redacting them would destroy the vendor's text, and
 * they reveal nothing.
 */
const TELLING_LENGTH = 4;

/** Returns a message's visible texts and its links: vendors repeat both in their errors. */
export function whatsappTexts(content: WhatsappContent): string[] {
  return textsOf(content).filter((text) => text !== undefined && text.length >= TELLING_LENGTH) as string[];
}

function textsOf(content: WhatsappContent): readonly (string | undefined)[] {
  switch (content.kind) {
    case 'text':
      return [content.body];
    case 'media':
      return [content.url, content.caption, content.filename];
    case 'template':
      return [
        ...Object.values(content.variables),
        ...(content.header === undefined ? [] : headerTexts(content.header)),
        ...(content.buttons ?? []).map(buttonText),
      ];
  }
}

function headerTexts(header: TemplateHeader): readonly (string | undefined)[] {
  switch (header.type) {
    case 'text':
      return [header.text];
    case 'image':
    case 'video':
      return [header.url];
    case 'document':
      return [header.url, header.filename];
    case 'location':
      return [header.name, header.address, String(header.latitude), String(header.longitude)];
  }
}

function buttonText(button: TemplateButton): string {
  switch (button.type) {
    case 'url':
      return button.text;
    case 'quick_reply':
      return button.payload;
    case 'copy_code':
      return button.code;
  }
}
