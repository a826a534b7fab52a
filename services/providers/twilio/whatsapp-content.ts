import type { WhatsappContent } from '#core/domain/message/content.ts';
import type { Failure } from '#core/domain/sending/failure.ts';

type Template = Extract<WhatsappContent, { kind: 'template' }>;
type Media = Extract<WhatsappContent, { kind: 'media' }>;
type Form = Readonly<Record<string, string>>;

export type WhatsappForm =
  | { readonly kind: 'form'; readonly form: Form }
  /** Twilio cannot represent a part of the message, so the recipient would see something else. */
  | { readonly kind: 'unsupported'; readonly failure: Failure };

const CONTENT_SID = /^HX[0-9a-fA-F]{32}$/;

/** Returns the request parameters for a message's content, https://www.twilio.com/docs/whatsapp/api. */
export function whatsappForm(content: WhatsappContent): WhatsappForm {
  switch (content.kind) {
    case 'text':
      return { kind: 'form', form: { Body: content.body } };
    case 'media':
      return mediaForm(content);
    case 'template':
      return templateForm(content);
  }
}

/** https://www.twilio.com/docs/whatsapp/guidance-whatsapp-media-messages */
function mediaForm({ type, url, caption }: Media): WhatsappForm {
  if (caption === undefined) return { kind: 'form', form: { MediaUrl: url } };
  if (type === 'document')
    return unsupported('unsupported_caption', 'Twilio shows no caption with a document');
  return { kind: 'form', form: { Body: caption, MediaUrl: url } };
}

/**
 * https://www.twilio.com/docs/content/send-templates-created-with-the-content-template-builder. Twilio numbers the
 * variables of body, header and buttons consecutively, so only the template's author knows which numbers its header uses.
 */
function templateForm({ name, variables, header, buttons = [] }: Template): WhatsappForm {
  if (!CONTENT_SID.test(name))
    return unsupported('invalid_template', 'The name of a template is its ContentSid: HX and 32 digits');
  if (header !== undefined || buttons.length > 0)
    return unsupported(
      'unsupported_template_part',
      'Twilio takes what fills header and buttons among the variables',
    );
  const named = Array.isArray(variables)
    ? Object.fromEntries(variables.map((value, place) => [String(place + 1), value]))
    : variables;
  return {
    kind: 'form',
    form: {
      ContentSid: name,
      ...(Object.keys(named).length === 0 ? {} : { ContentVariables: JSON.stringify(named) }),
    },
  };
}

function unsupported(code: string, providerMessage: string): WhatsappForm {
  return { kind: 'unsupported', failure: { class: 'content_rejected', code, providerMessage } };
}
