import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { HOUR_MS } from '#core/domain/text/duration.ts';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import { createProviderContexts } from './context.ts';
import { PEM_EXAMPLE } from './guide.ts';
import type { AnyProvider, HttpRequest } from './provider.ts';
import { PROVIDERS } from './registry.gen.ts';
import { parseAccount } from './registry.ts';
import { composeMail } from './smtp/mail.ts';

const NOW = Date.UTC(2026, 10, 22, 12);

type Message = { readonly [Field in keyof OutboundMessage]?: unknown };
/** A message without a field, and the same message with the field set or set to another value. */
type Pair = readonly [without: Message, withField: Message];

const CONTENT_SID = 'HX00000000000000000000000000000001';
const SMS = { channel: 'sms', to: '+15551230001', content: { body: 'Hello' } };
const MAIL = {
  channel: 'email',
  to: 'ada@example.org',
  content: { from: { address: 'hello@example.com' }, subject: 'Hello', text: 'Hello' },
};
const PUSH = { channel: 'push', to: '00ff'.repeat(16), content: { title: 'Hello', body: 'Hello' } };
const WHATSAPP = { channel: 'whatsapp', to: '+15551230001', content: { kind: 'text', body: 'Hello' } };
const TEMPLATE = { kind: 'template', name: CONTENT_SID, language: 'en_US', variables: ['Ada'] };
const IMAGE = { kind: 'media', type: 'image', url: 'https://www.example.com/a.png' };
const FILE = { kind: 'media', type: 'document', url: 'https://www.example.com/a.pdf' };

const other = <M extends { readonly content: object }>(
  message: M,
  content: object,
  base: object = {},
): Pair => [
  { ...message, content: { ...message.content, ...base } },
  { ...message, content: { ...message.content, ...base, ...content } },
];
const whatsapp = (content: object, change: object): Pair => [
  { ...WHATSAPP, content },
  { ...WHATSAPP, content: { ...content, ...change } },
];
const later = (message: Message): Pair => [message, { ...message, expiresAt: NOW + 2 * HOUR_MS }];

const PAIRS: Readonly<Record<string, Readonly<Record<string, Pair>>>> = {
  sms: {
    body: other(SMS, { body: 'Other' }),
    from: [SMS, { ...SMS, from: '+15005550099' }],
    expiresAt: later(SMS),
  },
  email: {
    from: other(MAIL, { from: { address: 'other@example.com' } }),
    subject: other(MAIL, { subject: 'Other' }),
    bodyHtml: other(MAIL, { html: '<p>Other</p>' }),
    bodyText: other(MAIL, { text: 'Other' }),
    replyTo: other(MAIL, { replyTo: { address: 'answers@example.com' } }),
    headers: other(MAIL, { headers: { 'X-Order': '7' } }),
    attachments: other(MAIL, {
      attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: 'QQ==' }],
    }),
    expiresAt: later(MAIL),
  },
  push: {
    title: other(PUSH, { title: 'Other' }),
    body: other(PUSH, { body: 'Other' }),
    data: other(PUSH, { data: { order: '7' } }),
    badge: other(PUSH, { badge: 3 }),
    sound: other(PUSH, { sound: 'ping' }),
    collapseKey: other(PUSH, { collapseKey: 'order' }),
    expiresAt: later(PUSH),
  },
  whatsapp: {
    body: other(WHATSAPP, { body: 'Other' }),
    template: whatsapp(TEMPLATE, { variables: ['Grace'] }),
    'template.header': whatsapp(TEMPLATE, { header: { type: 'text', text: 'Order 7' } }),
    'template.buttons': whatsapp(TEMPLATE, { buttons: [{ type: 'url', text: 'order-7' }] }),
    media: whatsapp(IMAGE, { url: 'https://www.example.com/b.png' }),
    'media.caption': whatsapp(IMAGE, { caption: 'A map' }),
    'media.filename': whatsapp(FILE, { filename: 'invoice.pdf' }),
    expiresAt: later(WHATSAPP),
  },
};

const KEYS = [
  generateKeyPairSync('rsa', { modulusLength: 2048 }),
  generateKeyPairSync('ec', { namedCurve: 'prime256v1' }),
].map(({ privateKey }) => privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());

/** Returns the account of the page's example, with a key of the kind that the provider requires. */
function accountOf(provider: AnyProvider) {
  const { guide, id } = provider;
  const { publicConfig, secretConfig } = guide.account;
  for (const key of KEYS) {
    const secrets = Object.entries(secretConfig).map(([name, value]) => [
      name,
      value === PEM_EXAMPLE ? key : value,
    ]);
    const parsed = parseAccount(provider, publicConfig, Object.fromEntries(secrets));
    if (parsed.ok) return parsed;
  }
  throw new Error(`The account in the guide of ${id} is not valid`);
}

/** Headers that are new for each call or depend on the clock. */
const PASSING = /^(?:authorization|webhook-signature|x-amz-.*)$/;

/** Returns the bytes sent for a message; undefined when it is refused before any call. */
async function wireOf(provider: AnyProvider, message: Message): Promise<string | undefined> {
  const account = accountOf(provider);
  const outbound = {
    id: '7f3b2a34-1111-4222-8333-444455556666',
    expiresAt: NOW + HOUR_MS,
    attempt: 1,
    ...message,
  };
  if (provider.id === 'smtp') {
    const { raw, envelope } = await composeMail(outbound as never, account.config as never);
    const text = String(raw)
      .replace(/^Date: .*$/m, '')
      .replaceAll(/_NmP-[\w-]+/g, '');
    return JSON.stringify(envelope) + text;
  }
  const requests: HttpRequest[] = [];
  const contexts = createProviderContexts({
    async http(request) {
      requests.push(request);
      const text = JSON.stringify({ access_token: 'token', expires_in: 3_600 });
      return { kind: 'response', status: 200, headers: {}, text };
    },
    resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
    epochMs: () => NOW,
  });
  const signal = AbortSignal.timeout(20_000);
  const context = contexts({ provider: provider.id, accountId: 'account', version: 1, until: signal });
  await provider.send(outbound as never, account as never, context);
  const sent = requests.find(({ url }) => !url.includes('oauth2.'));
  if (sent === undefined) return undefined;
  const headers = Object.entries(sent.headers ?? {}).filter(([name]) => !PASSING.test(name));
  return JSON.stringify([sent.url, headers, String(sent.body)]);
}

const REAL = [...PROVIDERS.values()].filter(({ receipts }) => receipts !== 'simulated');

describe.each(REAL.map((provider) => [provider.id, provider] as const))('the guide of %s', (_, provider) => {
  test.each(Object.entries(PAIRS[provider.channel] ?? {}))(
    'states correctly whether the field %s is sent to the vendor',
    async (field, [without, withField]) => {
      const meaning = provider.guide.fields[field];
      const [before, after] = [await wireOf(provider, without), await wireOf(provider, withField)];
      expect(before).toBeDefined();
      if (meaning === null) expect([before, undefined]).toContain(after);
      else expect([before, undefined]).not.toContain(after);
    },
  );
});

describe.each([...PROVIDERS])('the guide of %s', (_, { guide, channel }) => {
  test('describes every field of its channel, in full sentences', () => {
    expect(Object.keys(guide.fields).toSorted()).toEqual(Object.keys(PAIRS[channel] ?? {}).toSorted());
    const meanings = Object.values(guide.fields).filter((meaning) => meaning !== null);
    const sentences = [...guide.credentials, ...guide.limits, ...guide.unsupported, ...meanings];
    expect(guide.credentials.length * guide.limits.length * guide.unsupported.length).toBeGreaterThan(0);
    for (const sentence of sentences) {
      expect(sentence).toMatch(/^[A-Z`][\s\S]*\.$/);
      expect(sentence.split('`')).toHaveLength(2 * Math.floor(sentence.split('`').length / 2) + 1);
    }
  });
});
