import type { TemplateButton, TemplateHeader, WhatsappContent } from '#core/domain/message/content.ts';
import type { Failure } from '#core/domain/sending/failure.ts';

type Template = Extract<WhatsappContent, { kind: 'template' }>;
type Fields = Readonly<Record<string, unknown>>;

export type InfobipContent =
  | { readonly kind: 'content'; readonly resource: string; readonly content: Fields }
  /** Infobip cannot represent a part of the message, so the recipient would see something else. */
  | { readonly kind: 'unsupported'; readonly failure: Failure };

/** Returns the resource for a message and its content, https://www.infobip.com/docs/api/channels/whatsapp. */
export function infobipContent(content: WhatsappContent): InfobipContent {
  switch (content.kind) {
    case 'text':
      return { kind: 'content', resource: 'text', content: { text: content.body, previewUrl: false } };
    case 'media': {
      const { type, url, caption, filename } = content;
      return { kind: 'content', resource: type, content: defined({ mediaUrl: url, caption, filename }) };
    }
    case 'template':
      return templateContent(content);
  }
}

/** Infobip identifies variables and buttons by position only, not by name. */
function templateContent({ name, language, variables, header, buttons }: Template): InfobipContent {
  const placeholders = inOrder(variables);
  if (placeholders === undefined)
    return unsupported('Infobip takes no names of variables but 1, 2 and so on');
  if (header?.type === 'location' && (header.name ?? header.address) !== undefined)
    return unsupported('Infobip takes neither a name nor an address with the location of a header');
  const templateData = defined({
    body: { placeholders },
    header: header === undefined ? undefined : headerFields(header),
    buttons: buttons === undefined || buttons.length === 0 ? undefined : buttonFields(buttons),
  });
  return { kind: 'content', resource: 'template', content: { templateName: name, templateData, language } };
}

function inOrder(variables: Template['variables']): readonly string[] | undefined {
  if (isList(variables)) return variables;
  const values = Object.keys(variables).map((_, place) => variables[String(place + 1)]);
  return values.every((value) => value !== undefined) ? values : undefined;
}

function isList(variables: Template['variables']): variables is readonly string[] {
  return Array.isArray(variables);
}

function headerFields(header: TemplateHeader): Fields {
  switch (header.type) {
    case 'text':
      return { type: 'TEXT', placeholder: header.text };
    case 'image':
      return { type: 'IMAGE', mediaUrl: header.url };
    case 'video':
      return { type: 'VIDEO', mediaUrl: header.url };
    case 'document':
      return { type: 'DOCUMENT', mediaUrl: header.url, filename: header.filename ?? nameIn(header.url) };
    case 'location':
      return { type: 'LOCATION', latitude: header.latitude, longitude: header.longitude };
  }
}

/** Infobip requires a file name for every document. */
function nameIn(url: string): string {
  return URL.parse(url)?.pathname.split('/').at(-1) || 'document';
}

function buttonFields(buttons: readonly TemplateButton[]): Fields[] {
  return buttons
    .map((button, place) => ({ button, place: button.index ?? place }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ button }) => {
      switch (button.type) {
        case 'url':
          return { type: 'URL', parameter: button.text };
        case 'quick_reply':
          return { type: 'QUICK_REPLY', parameter: button.payload };
        case 'copy_code':
          return { type: 'COPY_CODE', parameter: button.code };
      }
    });
}

function unsupported(providerMessage: string): InfobipContent {
  const code = 'unsupported_template_part';
  return { kind: 'unsupported', failure: { class: 'content_rejected', code, providerMessage } };
}

/** Removes undefined fields. */
function defined(record: Fields): Fields {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
