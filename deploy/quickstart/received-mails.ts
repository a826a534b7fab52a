import type { Received } from '#providers/stand-in.ts';
import { asList, asObject, parseObject, textOf } from './json-text.ts';

/** A mail that was submitted to a vendor's API. */
export type SubmittedMail = {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
};

/** Returns undefined for any other request. */
export type ReadMail = (request: Received) => SubmittedMail | undefined;

export const readSendgridMail = ofJson('/v3/mail/send', (mail) => {
  const from = asObject(mail['from']);
  const parts = asList(mail['content']);
  const part = (type: string) => textOf(parts.find((one) => one['type'] === type)?.['value']);
  const [first] = asList(mail['personalizations']);
  return {
    from: mailbox(textOf(from['name']), textOf(from['email'])),
    to: textOf(asList(first?.['to'])[0]?.['email']),
    subject: textOf(mail['subject']),
    text: part('text/plain'),
    html: part('text/html'),
  };
});

export const readPostmarkMail = ofJson('/email', (mail) => ({
  from: textOf(mail['From']),
  to: textOf(mail['To']),
  subject: textOf(mail['Subject']),
  text: textOf(mail['TextBody']),
  html: textOf(mail['HtmlBody']),
}));

export const readResendMail = ofJson('/emails', (mail) => ({
  from: textOf(mail['from']),
  to: [mail['to']].flat().map(textOf).join(', '),
  subject: textOf(mail['subject']),
  text: textOf(mail['text']),
  html: textOf(mail['html']),
}));

export const readSesMail = ofJson('/v2/email/outbound-emails', (mail) => {
  const { Subject, Body } = asObject(asObject(mail['Content'])['Simple']);
  const part = (name: string) => textOf(asObject(asObject(Body)[name])['Data']);
  return {
    from: textOf(mail['FromEmailAddress']),
    to: [asObject(mail['Destination'])['ToAddresses']].flat().map(textOf).join(', '),
    subject: textOf(asObject(Subject)['Data']),
    text: part('Text'),
    html: part('Html'),
  };
});

export const readGatewayMail: ReadMail = ({ body }) => {
  const { type, data } = parseObject(body);
  if (type !== 'message.send') return undefined;
  const { to, content } = asObject(data);
  const { from, subject, bodyText, bodyHtml } = asObject(content);
  const sender = asObject(from);
  return {
    from: mailbox(textOf(sender['name']), textOf(sender['address'])),
    to: textOf(to),
    subject: textOf(subject),
    text: textOf(bodyText),
    html: textOf(bodyHtml),
  };
};

export const readMailgunMail: ReadMail = ({ method, path, headers, body }) => {
  if (method !== 'POST' || !/^\/v3\/[^/]+\/messages$/.test(path)) return undefined;
  const isForm = headers['content-type']?.startsWith('multipart/') !== true;
  const form = new URLSearchParams(isForm ? body : '');
  const field = (name: string): string =>
    isForm
      ? (form.get(name) ?? '')
      : (new RegExp(`name="${name}"\r\n\r\n([^]*?)\r\n--`).exec(body)?.[1] ?? '');
  return {
    from: field('from'),
    to: field('to'),
    subject: field('subject'),
    text: field('text'),
    html: field('html'),
  };
};

function ofJson(path: string, read: (mail: Record<string, unknown>) => SubmittedMail): ReadMail {
  return (request) =>
    request.method === 'POST' && request.path === path ? read(parseObject(request.body)) : undefined;
}

function mailbox(name: string, address: string): string {
  return name === '' ? address : `${name} <${address}>`;
}
