import type { TemplateButton, TemplateHeader, WhatsappContent } from '#core/domain/message/content.ts';

type Template = Extract<WhatsappContent, { kind: 'template' }>;
type Parameter = Readonly<Record<string, unknown>>;

/**
 * Returns a template in WhatsApp's own format, https://developers.facebook.com/docs/whatsapp/cloud-api/messages, which
 * vendors pass on. Components without a variable belong to the stored template and are not sent.
 */
export function whatsappTemplate({ name, language, variables, header, buttons = [] }: Template) {
  const body = bodyParameters(variables);
  const components = [
    ...(header === undefined ? [] : [{ type: 'header', parameters: [headerParameter(header)] }]),
    ...(body.length === 0 ? [] : [{ type: 'body', parameters: body }]),
    ...buttons.map(buttonComponent),
  ];
  return { name, language: { code: language }, ...(components.length === 0 ? {} : { components }) };
}

function bodyParameters(variables: Template['variables']): Parameter[] {
  return isPositional(variables)
    ? variables.map((text) => ({ type: 'text', text }))
    : Object.entries(variables).map(([key, text]) => ({ type: 'text', parameter_name: key, text }));
}

function isPositional(variables: Template['variables']): variables is readonly string[] {
  return Array.isArray(variables);
}

function headerParameter(header: TemplateHeader): Parameter {
  switch (header.type) {
    case 'text':
      return defined({ type: 'text', parameter_name: header.parameterName, text: header.text });
    case 'image':
    case 'video':
      return { type: header.type, [header.type]: { link: header.url } };
    case 'document':
      return { type: 'document', document: defined({ link: header.url, filename: header.filename }) };
    case 'location': {
      const { latitude, longitude, name, address } = header;
      const place = { latitude: String(latitude), longitude: String(longitude), name, address };
      return { type: 'location', location: defined(place) };
    }
  }
}

function buttonComponent(button: TemplateButton, place: number) {
  return {
    type: 'button',
    sub_type: button.type,
    index: String(button.index ?? place),
    parameters: [buttonParameter(button)],
  };
}

function buttonParameter(button: TemplateButton): Parameter {
  switch (button.type) {
    case 'url':
      return { type: 'text', text: button.text };
    case 'quick_reply':
      return { type: 'payload', payload: button.payload };
    case 'copy_code':
      return { type: 'coupon_code', coupon_code: button.code };
  }
}

/** Removes undefined fields. */
function defined(record: Parameter): Parameter {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
