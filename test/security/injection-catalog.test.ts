import { describe, expect, test } from 'vitest';
import type { Channel } from '#core/domain/message/channel.ts';
import { createProviderContexts } from '#providers/context.ts';
import type { AnyProvider, HttpRequest } from '#providers/provider.ts';
import { parseAccount } from '#providers/registry.ts';
import { PROVIDERS, type ProviderKind } from '#providers/registry.gen.ts';
import { CATALOG_ACCOUNTS } from '#test/support/catalog-accounts.ts';

/** Texts that could end a line, a field, a string or a MIME part. None contains a digit. */
const TEXTS = [
  'a\r\nX-Injected: b',
  'a\r\n\r\n<b>injected</b>',
  'a\nb',
  'a\0b',
  'a\u0085b\u2028c\u2029d\u000be\u000cf',
  `"'<>\`{}[]();,\\ %0d%0a&#10; \${7*7}`,
  'a&to=+15550009999&from=x;body=y=z+%2B%26#?/../',
  '"},"to":"injected","x":{"y":"\\u0000\\"',
  '--boundary\r\nContent-Disposition: form-data; name="to"\r\n\r\ninjected',
  '=?utf-8?q?a=0D=0AX-Injected:=20b?=',
  'a\u202eb\u2066c\u200bd\ufeff',
  '__proto__',
] as const;
/** Several alphabets, because some requests tell the vendor which alphabet the text needs. */
const HARMLESS = ['plain', 'plain ☃', 'plain 👍 plain'] as const;

const mail = { from: { address: 'zoe@acme.example' }, subject: 'plain', text: 'plain', html: '<p>plain</p>' };
const document = { kind: 'media', type: 'document', url: 'https://a.example/a.pdf', filename: 'plain.pdf' };
const image = { kind: 'media', type: 'image', url: 'https://a.example/a.jpg' };
/** A name of a template that is a template's id at Twilio as well. */
const TEMPLATE = `HX${'ab'.repeat(16)}`;
/** The api accepts no line breaks in this field; one vendor gets it in a header. */
const LINE = 'collapse key';

/** Every text field of a message that a client fills, by channel. */
const MESSAGES: Readonly<Record<Channel, Readonly<Record<string, (text: string) => object>>>> = {
  sms: { body: (body) => ({ content: { body } }), sender: (from) => ({ from, content: { body: 'plain' } }) },
  email: {
    subject: (subject) => ({ content: { ...mail, subject } }),
    text: (text) => ({ content: { ...mail, text } }),
    html: (html) => ({ content: { ...mail, html } }),
    'name of the sender': (name) => ({ content: { ...mail, from: { ...mail.from, name } } }),
    header: (value) => ({ content: { ...mail, headers: { 'X-Own': value } } }),
    'name of an attachment': (filename) => ({
      content: { ...mail, attachments: [{ filename, contentType: 'text/plain', content: 'aGVsbG8=' }] },
    }),
  },
  push: {
    title: (title) => ({ content: { title, body: 'plain' } }),
    body: (body) => ({ content: { title: 'plain', body } }),
    data: (value) => ({ content: { title: 'plain', data: { own: value } } }),
    sound: (sound) => ({ content: { title: 'plain', sound } }),
    [LINE]: (collapseKey) => ({ content: { title: 'plain', collapseKey: collapseKey.slice(0, 60) } }),
  },
  whatsapp: {
    body: (body) => ({ content: { kind: 'text', body } }),
    caption: (caption) => ({ content: { ...image, caption } }),
    'name of a document': (filename) => ({ content: { ...document, filename } }),
    'variable of a template': (text) => ({
      content: { kind: 'template', name: TEMPLATE, language: 'en', variables: [text] },
    }),
  },
};
const TO: Readonly<Record<Channel, string>> = {
  sms: '+15551230001',
  whatsapp: '+15551230001',
  push: 'ab'.repeat(32),
  email: 'ada@example.com',
};

/** The request that the adapter would send; undefined where it sends none. */
async function requestOf(provider: AnyProvider, message: object): Promise<HttpRequest | undefined> {
  const { publicConfig, secretConfig } = CATALOG_ACCOUNTS[provider.id as ProviderKind];
  const account = parseAccount(provider, publicConfig, secretConfig);
  if (!account.ok) throw new Error(JSON.stringify(account.details));
  const requests: HttpRequest[] = [];
  const text = JSON.stringify({ access_token: 'token-of-tests', expires_in: 3_600 });
  const contexts = createProviderContexts({
    async http(request) {
      requests.push(request);
      return { kind: 'response', status: 200, headers: { 'content-type': 'application/json' }, text };
    },
    resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
  });
  const signal = AbortSignal.timeout(10_000);
  const context = contexts({ provider: provider.id, accountId: 'account', version: 1, until: signal });
  const { channel } = provider;
  const id = '7f3b2a34-1111-4222-8333-444455556666';
  const expiresAt = Date.now() + 86_400_000;
  const sent = { channel, id, to: TO[channel], expiresAt, attempt: 1, ...message };
  await provider.send(sent as never, account as never, context);
  return requests.findLast(({ method, url }) => method === 'POST' && !url.endsWith('/token'));
}

/** Everything of a request except the injected texts: the part that a receiver reads as structure. */
function frameOf({ method, url, headers = {}, body = '' }: HttpRequest): string {
  const type = headers['content-type'] ?? '';
  const { origin, pathname, searchParams } = new URL(url);
  const text = typeof body === 'string' ? body : Buffer.from(body).toString('latin1');
  return JSON.stringify([
    method,
    origin + pathname,
    [...searchParams.keys()],
    Object.keys(headers).toSorted(),
    namesIn(text, type),
  ]);
}

function namesIn(body: string, type: string): unknown {
  if (type.includes('form-urlencoded')) return [...new URLSearchParams(body).keys()];
  const boundary = /boundary="?([^";]+)/.exec(type)?.[1];
  if (boundary === undefined) return shapeOf(JSON.parse(body));
  const parts = body.split(`--${boundary}`);
  return parts.map((part) =>
    part
      .split('\r\n\r\n', 1)[0]
      ?.split('\r\n')
      .map((line) => line.split(':', 1)[0]),
  );
}

function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value !== 'object' || value === null) return typeof value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([name, one]) => [name, shapeOf(one)] as const)
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}

/** The providers with an HTTP API. Mail by SMTP has a test of its own. */
const SENDING = [...PROVIDERS.values()].filter(({ id }) => id !== 'smtp' && !id.startsWith('simulator-'));

describe.each(SENDING)('$id', (provider) => {
  test.each(Object.entries(MESSAGES[provider.channel]))(
    'is sent the same fields, headers and parts, whatever text is in the %s',
    async (field, messageOf) => {
      const frames = new Set<string>();
      for (const text of HARMLESS) {
        const request = await requestOf(provider, messageOf(text));
        if (request !== undefined) frames.add(frameOf(request));
      }
      expect(frames.size).toBeGreaterThan(0);
      const texts = field === LINE ? TEXTS.filter((text) => !/\p{Cc}/u.test(text)) : TEXTS;
      for (const text of texts) {
        const request = await requestOf(provider, messageOf(text));
        if (request === undefined) continue;
        // oxlint-disable-next-line no-control-regex -- a control character in a header is what is looked for
        const broken = Object.values(request.headers ?? {}).filter((value) => /[\0\r\n]/.test(value));
        expect({ text, broken }).toEqual({ text, broken: [] });
        expect([...frames]).toContain(frameOf(request));
      }
    },
  );
});
