import { generateKeyPairSync } from 'node:crypto';
import PostalMime, { decodeWords } from 'postal-mime';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import { newId, type ApiKeyId, type MessageId, type TenantId } from '#core/domain/storage/ids.ts';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { createWarnings } from '#core/domain/fault/warning.ts';
import { createHttpClient, type HttpClient } from '#core/platform/http/http-client.ts';
import { createProviderContexts } from '#providers/context.ts';
import { startFcmStandIn } from '#providers/fcm/stand-in.ts';
import { parseAccount } from '#providers/registry.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { startSendgridStandIn } from '#providers/sendgrid/stand-in.ts';
import { STAND_IN_CERTIFICATE } from '#providers/smtp/stand-in-certificate.ts';
import { startSmtpStandIn, type ReceivedMail, type SmtpStandIn } from '#providers/smtp/stand-in.ts';
import type { Received, StandIn } from '#providers/stand-in.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import { startWhatsappCloudStandIn } from '#providers/whatsapp-cloud/stand-in.ts';
import type { KeyCaller } from '../../services/api/auth/auth.ts';
import { newMessageRow } from '../../services/api/messages/new-message.ts';
import { inputCompiler, readJson } from '../../services/api/http/input/read-input.ts';
import { SendMessage } from '../../services/api/messages/send-message-schema.ts';

/** Texts that could end a line, a field, a string or a command, or that look like another text. */
const TEXTS = {
  'a carriage return and a line feed': 'a\r\nX-Injected: b',
  'a line feed': 'a\nX-Injected: b',
  'a carriage return': 'a\rX-Injected: b',
  'an empty line and a body': 'a\r\n\r\n<b>injected</b>',
  'an SMTP command': 'a\r\n.\r\nMAIL FROM:<injected@example.com>\r\nRCPT TO:<injected@example.com>\r\nDATA',
  NUL: 'a\0b',
  'a next line': 'a\u0085X-Injected: b',
  'a line separator': 'a\u2028X-Injected: b',
  'a paragraph separator': 'a\u2029X-Injected: b',
  'a vertical tab and a form feed': 'a\u000bX-Injected: b\u000cc',
  'a half of a surrogate pair': 'a\ud800b',
  'the other half': 'a\udc00b',
  'bytes that look like line ends': 'a嘊嘍X-Injected: b',
  'text that runs backwards': 'a\u202egnp.exe\u202c',
  isolates: 'a\u2066b\u2069',
  'zero width': 'a\u200bb\u200dc\u2060d\ufefff',
  'other letters that look alike': 'раураl аpple',
  'combining marks': `a${'\u0301\u0323'.repeat(50)}`,
  'a family of emoji': '👨‍👩‍👧‍👦🏳️‍🌈',
  'quotes and brackets': `"'<>\`{}[]();,\\ %0d%0a&#10; \${7*7}`,
  'form syntax': 'a&To=+15550009999&From=x;Body=y=z+%2B%26',
  'JSON syntax': '"},"to":"injected","x":{"y":"\\u0000\\"',
  'an encoded word': '=?utf-8?q?a=0D=0AX-Injected:=20b?=',
  'dots alone': '.\r\n.\r\n..',
  'a very long line': 'a'.repeat(900),
} as const;
type Name = keyof typeof TEXTS;

/** Texts that end a header. The api or the adapter refuses them wherever a text becomes a header. */
const LINE_ENDS = new Set<Name>([
  'a carriage return and a line feed',
  'a line feed',
  'a carriage return',
  'an empty line and a body',
  'an SMTP command',
  'dots alone',
]);
/** Not valid text. */
const NO_TEXTS = new Set<Name>(['NUL', 'a half of a surrogate pair', 'the other half']);

const LEAST: Readonly<Record<Channel, Record<string, unknown>>> = {
  sms: { channel: 'sms', to: '+15550000001', body: 'Hello' },
  email: {
    channel: 'email',
    to: 'ann@example.org',
    from: 'Acme <hello@example.com>',
    subject: 'Hello',
    bodyText: 'Hello',
  },
  push: { channel: 'push', to: 'token-1', title: 'Hello' },
  whatsapp: { channel: 'whatsapp', to: '+15550000001', body: 'Hello' },
};

const validate = inputCompiler({ schema: SendMessage, method: 'POST', url: '/', httpPart: 'body' }) as (
  body: unknown,
) => {
  value?: SendMessage;
  error?: Error;
};
const caller = {
  kind: 'key',
  tenant: { id: 'tenant' as TenantId, limits: BUILT_IN_PLANS.free },
  key: { id: 'key' as ApiKeyId, mode: 'live', rateLimitRpm: null },
} as unknown as KeyCaller;

let http: HttpClient;
let smtp: SmtpStandIn;
const standIns: Record<string, StandIn> = {};
const ACCOUNTS: Readonly<Record<string, { channel: Channel; publicConfig: object; secretConfig: object }>> = {
  twilio: {
    channel: 'sms',
    publicConfig: { accountSid: `AC${'0'.repeat(32)}`, from: '+15005550006' },
    secretConfig: { authToken: 'token' },
  },
  sendgrid: { channel: 'email', publicConfig: {}, secretConfig: { apiKey: 'SG.key' } },
  fcm: {
    channel: 'push',
    publicConfig: { projectId: 'project-1', clientEmail: 'd@project-1.iam.gserviceaccount.com' },
    secretConfig: { privateKey: privateKey() },
  },
  'whatsapp-cloud': {
    channel: 'whatsapp',
    publicConfig: { phoneNumberId: '123' },
    secretConfig: { accessToken: 'EAA' },
  },
};

beforeAll(async () => {
  http = createHttpClient();
  smtp = await startSmtpStandIn();
  standIns['twilio'] = await startTwilioStandIn();
  standIns['sendgrid'] = await startSendgridStandIn();
  standIns['fcm'] = await startFcmStandIn();
  standIns['whatsapp-cloud'] = await startWhatsappCloudStandIn();
});
afterAll(async () => {
  for (const one of [http, smtp, ...Object.values(standIns)]) await one?.[Symbol.asyncDispose]();
});

/** Sends a message as a client does. @returns what the provider received; undefined where the api refuses the message. */
async function deliver(provider: string, fields: Record<string, unknown>): Promise<Received | undefined> {
  const before = standIns[provider]?.received.length ?? 0;
  if (!(await send(provider, ACCOUNTS[provider], fields))) return undefined;
  const received = standIns[provider]?.received.slice(before).filter(({ path }) => path !== '/token') ?? [];
  expect(received).toHaveLength(1);
  return received[0];
}

async function mail(fields: Record<string, unknown>): Promise<ReceivedMail | undefined> {
  const before = smtp.received.length;
  const publicConfig = { host: '127.0.0.1', port: smtp.port, caCertificate: STAND_IN_CERTIFICATE };
  if (!(await send('smtp', { channel: 'email', publicConfig, secretConfig: {} }, fields))) return undefined;
  const received = smtp.received.slice(before);
  expect(received).toHaveLength(1);
  return received[0];
}

async function send(
  provider: string,
  account: (typeof ACCOUNTS)[string] | undefined,
  fields: Record<string, unknown>,
): Promise<boolean> {
  const definition = PROVIDERS.get(provider);
  if (definition === undefined || account === undefined) throw new Error(`No provider ${provider}`);
  const row = rowOf({ ...LEAST[account.channel], ...fields });
  if (row === undefined) return false;
  const contexts = createProviderContexts({
    http,
    resolve: async (address) => ({ kind: 'resolved', addresses: [address] }),
    baseUrls: { [provider]: standIns[provider]?.origin ?? '' },
  });
  const context = contexts({
    provider,
    accountId: provider,
    version: 1,
    until: AbortSignal.timeout(10_000),
  });
  const parsed = parseAccount(definition, account.publicConfig, account.secretConfig);
  const { id, channel, address, sender, content } = row;
  const message = {
    id,
    channel,
    to: address,
    ...(sender === null ? {} : { from: sender }),
    content,
    expiresAt: Date.now() + 3_600_000,
    attempt: 1,
  };
  const { kind } = await definition.send(message as never, parsed as never, context);
  // A mail server may still refuse an address that the api accepts.
  expect(['accepted', 'rejected_permanent']).toContain(kind);
  return kind === 'accepted';
}

const GIVEN = {
  place: { seq: 1, purgeOn: '2099-01-05', id: newId<MessageId>() },
  routed: { accountId: NO_ACCOUNT, routeVersion: null, skipped: [] },
  clock: { now: Date.now(), enqueuedAt: new Date().toISOString(), aheadMs: 0 },
  warnings: createWarnings(),
  addressKeys: addressKeyRoot(secret('p'.repeat(32))),
};

function rowOf(body: object) {
  try {
    const { value, error } = validate(readJson(Buffer.from(JSON.stringify(body))));
    return value === undefined || error !== undefined
      ? undefined
      : newMessageRow(value, caller, GIVEN, null, { id: 'r1', traceparent: null });
  } catch (error) {
    expect(error).toMatchObject({ code: 'validation_failed' });
    return undefined;
  }
}

const CASES = Object.keys(TEXTS) as Name[];
const isRefusedAsLine = (name: Name): boolean => NO_TEXTS.has(name) || LINE_ENDS.has(name);

describe.each(CASES)('%s', (name) => {
  const text = TEXTS[name];
  /** A provider's request without the parts that contain the text. */
  const frame = ({ method, path, headers }: Received) => {
    const names = Object.keys(headers).filter((one) => one !== 'content-length');
    return { method, path, names };
  };

  test.each([
    ['twilio', 'body', (body: string) => new URLSearchParams(body).get('Body')],
    ['sendgrid', 'bodyText', (body: string) => JSON.parse(body).content[0].value as string],
    ['sendgrid', 'bodyHtml', (body: string) => JSON.parse(body).content.at(-1).value as string],
    ['fcm', 'title', (body: string) => JSON.parse(body).message.notification.title as string],
    ['fcm', 'body', (body: string) => JSON.parse(body).message.notification.body as string],
    ['whatsapp-cloud', 'body', (body: string) => JSON.parse(body).text.body as string],
  ] as const)('as content at %s in %s arrives unchanged or is rejected', async (provider, field, read) => {
    const plain = await deliver(provider, { [field]: 'plain' });
    const received = await deliver(provider, { [field]: text });
    if (NO_TEXTS.has(name)) return expect(received).toBeUndefined();
    expect(read(received?.body ?? '')).toBe(text);
    expect(frame(received as Received)).toEqual(frame(plain as Received));
    expect(fieldsOf(received as Received)).toEqual(fieldsOf(plain as Received));
  });

  test.each([
    ['sendgrid', 'subject', (body: string) => JSON.parse(body).subject as string, text],
    ['sendgrid', 'headers', (body: string) => JSON.parse(body).headers['X-Own'] as string, { 'X-Own': text }],
    [
      'fcm',
      'collapseKey',
      (body: string) => JSON.parse(body).message.android.collapse_key as string,
      text.slice(0, 64),
    ],
  ] as const)(
    'as a line at %s in %s arrives unchanged or is rejected',
    async (provider, field, read, value) => {
      const received = await deliver(provider, { [field]: value });
      if (isRefusedAsLine(name)) return expect(received).toBeUndefined();
      expect(read(received?.body ?? '')).toBe(typeof value === 'string' ? value : text);
    },
  );

  test('in a mail by SMTP adds no header, recipient or command', async () => {
    const fields = { bodyText: text, bodyHtml: text, subject: text, headers: { 'X-Own': text } };
    if (isRefusedAsLine(name)) {
      for (const field of ['subject', 'headers'] as const)
        expect(await mail({ [field]: fields[field] })).toBeUndefined();
    }
    const sent = isRefusedAsLine(name) ? { bodyText: text, bodyHtml: text } : fields;
    const received = await mail(sent);
    if (NO_TEXTS.has(name)) return expect(received).toBeUndefined();
    expect(received?.envelope).toEqual({ from: 'hello@example.com', to: ['ann@example.org'] });
    const parsed = await PostalMime.parse(received?.raw ?? '');
    const own = isRefusedAsLine(name) ? [] : ['x-own'];
    expect(parsed.headers.map(({ key }) => key).toSorted()).toEqual(
      [...own, 'content-type', 'date', 'from', 'message-id', 'mime-version', 'subject', 'to'].toSorted(),
    );
    expect([parsed.text, parsed.html].map(unified)).toEqual([text, text].map(unified));
    if (!isRefusedAsLine(name)) {
      expect(parsed.subject).toBe(text);
      expect(decodeWords(parsed.headers.find(({ key }) => key === 'x-own')?.value ?? '')).toBe(text);
    }
  });

  test.each(['to', 'from', 'replyTo'])('in the address %s of a mail adds no mailbox', async (field) => {
    for (const value of [
      `${text}@example.org`,
      `ann@${text}.example`,
      `${text} <ann@example.org>`,
      `"${text}" <ann@example.org>`,
    ]) {
      if (value.length > 320) continue;
      const received = await mail({ [field]: value });
      if (received === undefined) continue;
      expect(isRefusedAsLine(name)).toBe(false);
      expect(received.envelope.to).toHaveLength(1);
      const { headers, from, to, replyTo } = await PostalMime.parse(received.raw);
      expect([from, ...(to ?? []), ...(replyTo ?? [])]).toHaveLength(field === 'replyTo' ? 3 : 2);
      expect(headers.map(({ key }) => key)).not.toContain('x-injected');
    }
  });

  test.each(['sms', 'whatsapp'] as const)('in a phone number of %s is rejected', (channel) => {
    for (const to of [text, `+15550000001${text}`, `${text}+15550000001`]) {
      expect(rowOf({ ...LEAST[channel], to })).toBeUndefined();
    }
  });
});

/** The names of the fields of a form or JSON body, at all levels. */
function fieldsOf({ body, headers }: Received): string[] {
  if (headers['content-type']?.includes('form')) return [...new URLSearchParams(body).keys()];
  const names: string[] = [];
  JSON.parse(body, (key, value: unknown) => {
    names.push(key);
    return value;
  });
  return names;
}

/** Converts CRLF to LF and drops the last line end, which a mail adds. */
function unified(text: string | undefined): string {
  return (text ?? '').replace(/\r\n|\r/g, '\n').trimEnd();
}

function privateKey(): string {
  const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return key.export({ type: 'pkcs8', format: 'pem' }) as string;
}
