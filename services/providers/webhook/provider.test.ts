import { createHmac, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { createProviderContexts } from '#providers/context.ts';
import type { Received } from '#providers/stand-in.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import definitions from './provider.ts';
import { startGatewayStandIn } from './stand-in.ts';

const [sms, email, push, whatsapp] = definitions;

const SECRET = `whsec_${Buffer.from('canary-secret-of-32-bytes-length').toString('base64')}`;
const GATEWAY_URL = 'https://gateway.acme.example/despatch/send?team=a%20b';
const secretConfig = { signingSecret: SECRET };
const RECEIPT_URL = 'https://hooks.example/v1/receipts/a/t0ken';
const envelope = {
  id: '7f3b2a34-1111-4222-8333-444455556666',
  expiresAt: Date.UTC(2100, 0, 1),
  attempt: 2,
  receiptUrl: RECEIPT_URL,
};
const smsMessage = {
  ...envelope,
  channel: 'sms',
  to: '+15551230001',
  content: { body: 'Grüße & 100%' },
} as const;
const emailContent = {
  from: { address: 'news@acme.example' },
  replyTo: { name: 'Help', address: 'help@acme.example' },
  subject: 'Grüße ✓',
  text: 'Hello',
  html: '<p>Hello</p>',
  headers: { 'X-Campaign': 'spring' },
  attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: btoa('file') }],
};
const pushContent = {
  title: 'Hi',
  body: 'There',
  data: { n: 1, o: { p: true } },
  badge: 3,
  sound: 'ding',
  collapseKey: 'k',
};
const template = {
  kind: 'template',
  name: 'welcome',
  language: 'en_US',
  variables: ['Ada'],
  header: { type: 'image', url: 'https://cdn.example/a.png' },
  buttons: [{ type: 'url', text: 'x' }],
} as const;

/** Verifies as https://www.standardwebhooks.com specifies, the way a gateway would. */
function expectSigned({ headers, body }: Received, id: string): void {
  const timestamp = headers['webhook-timestamp'] ?? '';
  expect(Math.abs(Number(timestamp) * 1_000 - Date.now())).toBeLessThan(60_000);
  const key = Buffer.from('canary-secret-of-32-bytes-length');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-signature': `v1,${signature}`,
  });
}

const error = (status: number, said: object) => ({ status, body: { error: said } });

type Case = {
  readonly provider: (typeof definitions)[number];
  readonly message: OutboundMessage;
  readonly from?: string;
  readonly otherSettings: Readonly<Record<string, string>>;
  /** The channel-specific part of the request. */
  readonly sent: object;
};
const cases: readonly Case[] = [
  {
    provider: sms,
    message: smsMessage,
    from: 'Acme',
    otherSettings: { from: 'Other' },
    sent: { from: 'Acme', content: smsMessage.content },
  },
  {
    provider: whatsapp,
    message: { ...envelope, channel: 'whatsapp', to: '+15551230001', content: template },
    from: '+15005550006',
    otherSettings: { from: 'Other' },
    sent: { from: '+15005550006', content: template },
  },
  {
    provider: push,
    message: { ...envelope, channel: 'push', to: 'device-token-1', content: pushContent },
    otherSettings: {},
    sent: { content: pushContent },
  },
  {
    provider: email,
    message: { ...envelope, channel: 'email', to: 'ada@example.com', content: emailContent },
    otherSettings: { from: 'other@acme.example', fromName: 'Other' },
    sent: { content: emailContent },
  },
];

describe.each(cases)('$provider.id', ({ provider, message, from, otherSettings, sent }) => {
  const account = {
    publicConfig: { url: GATEWAY_URL, ...(from === undefined ? {} : { from }) },
    secretConfig,
  };
  httpProviderSuite({
    provider,
    startStandIn: () => startGatewayStandIn(SECRET),
    account,
    otherSettings: { url: 'https://other.acme.example/', ...otherSettings },
    message,
    sendPath: /^\/despatch\/send\?/,
    verifyPath: /^\/despatch\/send\?/,
    request: (received) => {
      expect([received.method, received.path]).toEqual(['POST', '/despatch/send?team=a%20b']);
      expectSigned(received, message.id);
      expect(JSON.parse(received.body)).toEqual({
        type: 'message.send',
        timestamp: expect.stringMatching(/^\d{4}-.*Z$/) as string,
        data: {
          messageId: message.id,
          attempt: 2,
          channel: provider.channel,
          to: message.to,
          expiresAt: '2100-01-01T00:00:00.000Z',
          receiptUrl: RECEIPT_URL,
          ...sent,
        },
      });
    },
    sender: from,
    providerMessageId: /^gw-[0-9a-f-]{36}$/,
    errorBody: (text) => ({ error: { message: text } }),
    refusals: [
      {
        reply: error(422, { class: 'invalid_recipient', code: 'not_mobile', message: 'A landline' }),
        outcome: {
          kind: 'rejected_permanent',
          failure: {
            class: 'invalid_recipient',
            code: 'not_mobile',
            providerCode: 'not_mobile',
            providerMessage: 'A landline',
            httpStatus: 422,
          },
        },
      },
      {
        reply: error(400, { class: 'recipient_unavailable', code: 'recipient_opted_out' }),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'recipient_unavailable', code: 'recipient_opted_out' },
        },
      },
      {
        reply: error(400, { class: 'recipient_unavailable', code: 'E 7', temporary: true }),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'recipient_unavailable', code: 'recipient_unavailable', providerCode: 'E 7' },
        },
      },
      {
        reply: error(409, { class: 'content_rejected' }),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'content_rejected', code: 'content_rejected' },
        },
      },
      {
        reply: error(403, { class: 'sender_rejected', code: 'unknown_sender' }),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'sender_rejected', code: 'unknown_sender' },
        },
      },
      {
        reply: error(400, { class: 'auth_or_config', code: 'no_contract', temporary: false }),
        outcome: { kind: 'rejected_transient', failure: { class: 'auth_or_config', code: 'no_contract' } },
      },
      {
        reply: error(400, { class: 'provider_throttled' }),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'provider_throttled', code: 'rate_limited' },
        },
      },
      {
        reply: error(500, { class: 'unknown', temporary: false }),
        outcome: { kind: 'rejected_permanent', failure: { class: 'unknown', code: 'refused' } },
      },
      {
        reply: error(401, { class: 'invalid_recipient' }),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'auth_or_config', code: 'authentication_failed' },
        },
      },
      ...[404, 405, 410].map((status) => ({
        reply: { status, body: { message: 'Nothing here' } },
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'auth_or_config', code: 'gateway_not_found', httpStatus: status },
        } as const,
      })),
      {
        reply: { status: 422, body: 'no' },
        outcome: { kind: 'rejected_permanent', failure: { class: 'unknown', code: 'http_422' } },
      },
    ],
    wrongCredential: error(401, { code: 'bad_signature' }),
    invalidAccounts: [
      {
        account: { publicConfig: {}, secretConfig: {} },
        fields: ['publicConfig.url', 'secretConfig.signingSecret'],
      },
      ...[
        'http://gateway.acme.example/',
        'https://user:pass@gateway.acme.example/',
        'not an url',
        'https://a.example/#x',
      ].map((url) => ({ account: { publicConfig: { url }, secretConfig }, fields: ['publicConfig.url'] })),
      ...[
        `whsec_${btoa('short')}`,
        btoa('x'.repeat(32)),
        `whsec_${'é'.repeat(40)}`,
        `whsec_${'A'.repeat(200)}`,
      ].map((signingSecret) => ({
        account: { publicConfig: { url: GATEWAY_URL }, secretConfig: { signingSecret } },
        fields: ['secretConfig.signingSecret'],
      })),
    ],
  });
});

describe('a gateway', () => {
  const credentials = { config: { url: GATEWAY_URL }, secrets: { signingSecret: SECRET } };

  test('gets the message id as webhook-id in each call, and can detect a retry', async () => {
    await using http = createHttpClient();
    await using standIn = await startGatewayStandIn(SECRET);
    const context = contextAt(sms, http, standIn.origin);
    const outcomes = [
      await sms.send(smsMessage, credentials, context),
      await sms.send({ ...smsMessage, attempt: 3 }, credentials, context),
    ];
    expect(outcomes[0]).toMatchObject({ kind: 'accepted' });
    expect(outcomes[1]).toEqual(outcomes[0]);
    expect(standIn.received.map(({ headers }) => headers['webhook-id'])).toEqual([
      smsMessage.id,
      smsMessage.id,
    ]);
    expect(sms.dedupe).toBe('key');
  });

  test('gets a signed gateway.check call for the credential check', async () => {
    await using http = createHttpClient();
    await using standIn = await startGatewayStandIn(SECRET);
    expect(await sms.verify(credentials, contextAt(sms, http, standIn.origin))).toEqual({ kind: 'valid' });
    const [received] = standIn.received;
    if (received === undefined) throw new Error('Nothing came');
    expectSigned(received, received.headers['webhook-id'] ?? '');
    expect(JSON.parse(received.body)).toMatchObject({ type: 'gateway.check', data: { channel: 'sms' } });
  });

  test('accepts with an empty success body; its own message id is optional', async () => {
    await using http = createHttpClient();
    await using standIn = await startGatewayStandIn(SECRET);
    const context = contextAt(sms, http, standIn.origin);
    for (const body of ['', {}, { providerMessageId: 7 }]) {
      standIn.fail({ kind: 'reply', status: 200, body });
      expect(await sms.send(smsMessage, credentials, context)).toMatchObject({
        kind: 'accepted',
        providerMessageId: null,
      });
    }
  });

  test("an id of the gateway's loses what the database does not accept", async () => {
    await using http = createHttpClient();
    await using standIn = await startGatewayStandIn(SECRET);
    const context = contextAt(sms, http, standIn.origin);
    const answered = ['a\0b', 'a\ud800', '\0', 'x'.repeat(256)];
    const stored: unknown[] = [];
    for (const providerMessageId of answered) {
      standIn.fail({ kind: 'reply', status: 200, body: { providerMessageId } });
      stored.push(await sms.send(smsMessage, credentials, context));
    }
    expect(stored).toMatchObject(
      ['ab', 'a\ufffd', null, null].map((providerMessageId) => ({ kind: 'accepted', providerMessageId })),
    );
  });

  test("gets the message's sender before the account's, and none if there is none", async () => {
    await using http = createHttpClient();
    await using standIn = await startGatewayStandIn(SECRET);
    const context = contextAt(sms, http, standIn.origin);
    await sms.send(
      { ...smsMessage, from: '+15005550009' },
      { ...credentials, config: { url: GATEWAY_URL, from: 'Acme' } },
      context,
    );
    await sms.send(smsMessage, credentials, context);
    const sent = standIn.received.map(
      ({ body }) => (JSON.parse(body) as { data: { from?: string } }).data.from,
    );
    expect(sent).toEqual(['+15005550009', undefined]);
  });

  test("gets the account's display name with the account's address", async () => {
    await using http = createHttpClient();
    await using standIn = await startGatewayStandIn(SECRET);
    const config = { url: GATEWAY_URL, from: 'news@acme.example', fromName: 'Acme' };
    const message = { ...envelope, channel: 'email', to: 'ada@example.com', content: emailContent } as const;
    await email.send(message, { ...credentials, config }, contextAt(email, http, standIn.origin));
    expect(JSON.parse(standIn.received[0]?.body ?? '')).toMatchObject({
      data: { content: { from: { address: 'news@acme.example', name: 'Acme' } } },
    });
  });

  test.each([
    'https://127.0.0.1/',
    'https://169.254.169.254/latest',
    'https://[::1]/',
    'https://inside.example/',
    'https://inside.example:8443/',
  ])(
    'at the blocked address %s gives an auth_or_config failure for send and credential check',
    async (url) => {
      const guard = createEgressGuard({
        allowCidrs: [],
        ports: [443],
        resolveHost: async () => (url.includes('8443') ? ['93.184.215.14'] : ['10.0.0.7']),
      });
      await using http = createHttpClient({ guard });
      const contexts = createProviderContexts({ http, resolve: guard.resolve });
      const signal = AbortSignal.timeout(20_000);
      const context = contexts({ provider: 'webhook-sms', accountId: 'a', version: 1, until: signal });
      const account = { ...credentials, config: { url } };
      const failure = { class: 'auth_or_config', code: 'egress_blocked' };
      expect(await sms.send(smsMessage, account, context)).toMatchObject({
        kind: 'rejected_transient',
        failure,
      });
      expect(await sms.verify(account, context)).toMatchObject({ kind: 'invalid', failure });
    },
  );

  test('that repeats the content, receipt URL or secret has them redacted', async () => {
    await using http = createHttpClient();
    await using standIn = await startGatewayStandIn(SECRET);
    const echo = `${smsMessage.content.body} ${RECEIPT_URL} ${SECRET.slice(6)}`;
    standIn.fail({ kind: 'reply', ...error(400, { code: echo, message: echo }) });
    const outcome = JSON.stringify(
      await sms.send(smsMessage, credentials, contextAt(sms, http, standIn.origin)),
    );
    for (const hidden of [smsMessage.content.body, RECEIPT_URL, SECRET.slice(6)])
      expect(outcome).not.toContain(hidden);
  });

  test('accepts secrets of 24 to 64 bytes, padded or not', () => {
    const isTaken = (signingSecret: string) => sms.secrets.safeParse({ signingSecret }).success;
    const secretOf = (bytes: number) => `whsec_${randomBytes(bytes).toString('base64')}`;
    expect([23, 24, 25, 64, 65].map((bytes) => isTaken(secretOf(bytes)))).toEqual([
      false,
      true,
      true,
      true,
      false,
    ]);
    expect(isTaken(secretOf(25).replace(/=+$/, ''))).toBe(true);
  });
});
