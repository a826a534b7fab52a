import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { describe, expect, test } from 'vitest';
import { smsSegments } from '#core/domain/message/segments.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { parseAccount } from '#providers/registry.ts';
import type { Received } from '#providers/stand-in.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { MESSAGES_CODES, SMS_CODES } from './outcomes.ts';
import definitions from './provider.ts';
import { startVonageStandIn } from './stand-in.ts';

const [vonage] = definitions;
const pair = () =>
  generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
const { publicKey, privateKey } = pair();
const APPLICATION = '78d335fa-323d-0114-9c3d-d6f0d48968cf';
const account = {
  publicConfig: { apiKey: 'abcd1234', from: '+447700900000', applicationId: APPLICATION },
  secretConfig: { apiSecret: 'canary-api-secret-1', privateKey, signatureSecret: 'canary-signature-1' },
};
const smsAccount = {
  publicConfig: { apiKey: 'abcd1234', from: '+447700900000', api: 'sms' },
  secretConfig: { apiSecret: 'canary-api-secret-1', signatureSecret: 'canary-signature-1' },
};
const otherSettings = {
  apiKey: 'abcd9999',
  from: 'Other',
  api: 'sms',
  applicationId: '00000000-0000-4000-8000-000000000000',
  region: 'eu',
  signatureMethod: 'sha512',
  dltEntityId: '1101',
  dltTemplateId: '1107',
};
const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Grüße & 100% +1' },
  expiresAt: Date.now() + 30 * 24 * 3_600_000,
  receiptUrl: 'https://hooks.example/v1/receipts/a/secret-token',
  attempt: 1,
} as const;

const problem = (status: number, code: string | number, over: object = {}) => ({
  status,
  headers: { 'content-type': 'application/problem+json' },
  body: {
    type: `https://developer.vonage.com/api-errors/messages#${code}`,
    title: 'Error',
    detail: 'Refused',
    instance: 'bf0ca0bf927b3b52e3cb03217e1a1ddf',
    ...over,
  },
});
const invalid = (name: string) => ({ invalid_parameters: [{ name, reason: 'Is not valid' }] });
/** An SMS API failure, which arrives inside a success response. */
const failed = (status: string) => ({
  status: 200,
  body: { 'message-count': '1', messages: [{ status, 'error-text': 'Refused' }] },
});
const wrongCredential = {
  status: 401,
  body: { 'error-code': '401', 'error-code-label': 'authentication failed' },
};

describe('with the Messages API', () => {
  httpProviderSuite({
    provider: vonage,
    startStandIn: () => startVonageStandIn({ publicKey }),
    account,
    otherSettings,
    message,
    sendPath: /\/v1\/messages$/,
    verifyPath: /\/account\/get-balance$/,
    request: (received) => {
      expect(received.method).toBe('POST');
      expect(received.path).toBe('/v1/messages');
      expect(received.headers).toMatchObject({
        authorization: expect.stringMatching(/^Bearer /) as string,
        'content-type': 'application/json',
      });
      expect(JSON.parse(received.body)).toEqual({
        channel: 'sms',
        message_type: 'text',
        from: '447700900000',
        to: '15551230001',
        text: 'Grüße & 100% +1',
        ttl: 604_800,
        sms: { encoding_type: 'auto' },
        client_ref: message.id,
        webhook_url: message.receiptUrl,
        webhook_version: 'v1',
      });
    },
    sender: account.publicConfig.from,
    providerMessageId: /^[0-9a-f-]{36}$/,
    errorBody: (text) => problem(400, 'invalid-params', { detail: text }).body,
    refusals: [
      {
        reply: problem(422, 1120, invalid('from')),
        outcome: {
          kind: 'rejected_permanent',
          failure: {
            class: 'sender_rejected',
            code: 'invalid_sender',
            providerCode: '1120',
            providerMessage: 'Is not valid',
            httpStatus: 422,
          },
        },
      },
      {
        reply: problem(422, 1150, invalid('to')),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'invalid_recipient', code: 'invalid_number', providerCode: '1150' },
        },
      },
      {
        reply: problem(422, 1090, invalid('text')),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'content_rejected', code: 'body_too_long', providerCode: '1090' },
        },
      },
      {
        reply: problem(403, 1240),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '1240' },
        },
      },
      {
        reply: problem(401, 'unauthorized'),
        outcome: {
          kind: 'rejected_transient',
          failure: {
            class: 'auth_or_config',
            code: 'authentication_failed',
            providerCode: 'unauthorized',
          },
        },
      },
      {
        reply: problem(402, 1070),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'auth_or_config', code: 'insufficient_credit', providerCode: '1070' },
        },
      },
      {
        reply: problem(403, 'low-balance'),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'auth_or_config', code: 'insufficient_credit' },
        },
      },
      {
        reply: problem(429, 1000),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'provider_throttled', code: 'rate_limited', providerCode: '1000' },
        },
      },
      {
        reply: problem(500, 1030),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: '1030' },
        },
      },
      {
        reply: problem(422, 1999),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'unknown', code: 'http_422', providerCode: '1999', providerMessage: 'Refused' },
        },
      },
    ],
    wrongCredential,
    invalidAccounts: [
      {
        account: { publicConfig: {}, secretConfig: {} },
        fields: ['publicConfig.apiKey', 'publicConfig.from', 'secretConfig.apiSecret'],
      },
      {
        account: {
          publicConfig: {
            ...account.publicConfig,
            apiKey: 'a:b',
            applicationId: '../x',
            api: 'voice',
            region: 'evil.example',
            signatureMethod: 'none',
          },
          secretConfig: { ...account.secretConfig, privateKey: 'not-a-key' },
        },
        fields: [
          'publicConfig.apiKey',
          'publicConfig.api',
          'publicConfig.applicationId',
          'publicConfig.region',
          'publicConfig.signatureMethod',
          'secretConfig.privateKey',
        ],
      },
      {
        account: {
          publicConfig: account.publicConfig,
          secretConfig: { apiSecret: 'canary-api-secret-1' },
        },
        fields: ['secretConfig.privateKey'],
      },
      {
        account: {
          publicConfig: { apiKey: 'abcd1234', from: 'Acme' },
          secretConfig: { apiSecret: 'canary-api-secret-1', privateKey },
        },
        fields: ['publicConfig.applicationId'],
      },
    ],
  });
});

describe('with the SMS API', () => {
  httpProviderSuite({
    provider: vonage,
    startStandIn: startVonageStandIn,
    account: smsAccount,
    otherSettings: { ...otherSettings, api: 'messages' },
    message,
    sendPath: /\/sms\/json$/,
    verifyPath: /\/account\/get-balance$/,
    request: (received) => {
      expect(received.method).toBe('POST');
      expect(received.headers).toMatchObject({
        authorization: `Basic ${btoa('abcd1234:canary-api-secret-1')}`,
        'content-type': 'application/json',
      });
      expect(JSON.parse(received.body)).toEqual({
        from: '447700900000',
        to: '15551230001',
        text: 'Grüße & 100% +1',
        type: 'text',
        ttl: 604_800_000,
        'client-ref': message.id,
        callback: message.receiptUrl,
        'status-report-req': true,
      });
    },
    sender: account.publicConfig.from,
    providerMessageId: /^[0-9A-F]{16}$/,
    errorBody: (text) => ({ 'message-count': '1', messages: [{ status: '3', 'error-text': text }] }),
    refusals: [
      {
        reply: failed('4'),
        outcome: {
          kind: 'rejected_transient',
          failure: {
            class: 'auth_or_config',
            code: 'authentication_failed',
            providerCode: '4',
            providerMessage: 'Refused',
            httpStatus: 200,
          },
        },
      },
      {
        reply: failed('9'),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'auth_or_config', code: 'insufficient_credit', providerCode: '9' },
        },
      },
      {
        reply: failed('1'),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'provider_throttled', code: 'rate_limited', providerCode: '1' },
        },
      },
      {
        reply: failed('5'),
        outcome: {
          kind: 'rejected_transient',
          failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: '5' },
        },
      },
      {
        reply: failed('6'),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'recipient_unavailable', code: 'unroutable', providerCode: '6' },
        },
      },
      {
        reply: failed('7'),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'recipient_unavailable', code: 'recipient_blocked', providerCode: '7' },
        },
      },
      {
        reply: failed('15'),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'sender_rejected', code: 'invalid_sender', providerCode: '15' },
        },
      },
      {
        reply: failed('12'),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'content_rejected', code: 'body_too_long', providerCode: '12' },
        },
      },
      {
        reply: failed('98'),
        outcome: {
          kind: 'rejected_permanent',
          failure: { class: 'unknown', code: 'rejected', providerCode: '98' },
        },
      },
    ],
    wrongCredential,
    invalidAccounts: [],
  });
});

describe('vonage', () => {
  const setup = async (sent: { publicConfig: object; secretConfig: object }, told = publicKey) => {
    const stack = new AsyncDisposableStack();
    const http = stack.use(createHttpClient());
    const standIn = stack.use(await startVonageStandIn({ publicKey: told }));
    const parsed = parseAccount(vonage, sent.publicConfig, sent.secretConfig);
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.details));
    const context = contextAt(vonage, http, standIn.origin);
    return {
      send: (over: object = {}) => vonage.send({ ...message, ...over }, parsed as never, context),
      verify: () => vonage.verify(parsed as never, context),
      standIn,
      [Symbol.asyncDispose]: () => stack.disposeAsync(),
    };
  };
  const tokenOf = (received: Received | undefined) =>
    (received?.headers['authorization'] ?? '').replace('Bearer ', '');
  const bodyOf = (received: Received | undefined) =>
    JSON.parse(received?.body ?? '') as Record<string, unknown>;

  test.each([
    [{}, 'https://api.nexmo.com/v1/messages'],
    [{ region: 'eu' }, 'https://api-eu.vonage.com/v1/messages'],
    [{ region: 'us' }, 'https://api-us.vonage.com/v1/messages'],
    [{ region: 'ap' }, 'https://api-ap.vonage.com/v1/messages'],
    [{ region: 'eu', api: 'sms' }, 'https://rest.nexmo.com/sms/json'],
  ])('with %j calls %s', async (settings, url) => {
    const parsed = parseAccount(
      vonage,
      { ...smsAccount.publicConfig, api: 'messages', ...settings },
      smsAccount.secretConfig,
    );
    const urls: string[] = [];
    const context = {
      ...contextAt(vonage, undefined as never, ''),
      origin: (vendorOrigin: string) => vendorOrigin,
      http: async (request: { readonly url: string }) => {
        urls.push(request.url);
        return { kind: 'not_sent', code: 'dns' } as const;
      },
    };
    await vonage.send(message, parsed as never, context);
    expect(urls).toEqual([url]);
  });

  test('signs Messages API calls with an application JWT that expires after 15 minutes', async () => {
    await using at = await setup(account);
    await at.send();
    const token = tokenOf(at.standIn.received[0]);
    expect(decodeProtectedHeader(token)).toEqual({ alg: 'RS256', typ: 'JWT' });
    const { payload } = await jwtVerify(token, createPublicKey(publicKey));
    expect(payload).toEqual({
      application_id: APPLICATION,
      jti: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      iat: expect.any(Number) as number,
      exp: (payload.iat ?? 0) + 900,
    });
  });

  test('reuses a token until it is refused', async () => {
    await using at = await setup(account);
    await at.send();
    at.standIn.fail({ kind: 'reply', ...problem(401, 'unauthorized') });
    await at.send();
    await at.send();
    const ids = at.standIn.received.map((one) => decodeJwt(tokenOf(one)).jti);
    expect(ids[1]).toBe(ids[0]);
    expect(ids[2]).not.toBe(ids[0]);
  });

  test('calls the Messages API with key and secret if there is no application', async () => {
    await using at = await setup({
      publicConfig: { apiKey: 'abcd1234', from: 'Acme' },
      secretConfig: { apiSecret: 'secret' },
    });
    expect(await at.send({ receiptUrl: undefined })).toMatchObject({ kind: 'accepted', sender: 'Acme' });
    expect(at.standIn.received[0]?.headers['authorization']).toBe(`Basic ${btoa('abcd1234:secret')}`);
    expect(bodyOf(at.standIn.received[0])).not.toHaveProperty('webhook_url');
  });

  test("the message's sender overrides the account's", async () => {
    await using at = await setup(account);
    await using bySms = await setup(smsAccount);
    expect(await at.send({ from: 'Acme Shop' })).not.toHaveProperty('sender');
    expect(await bySms.send({ from: '+15005550009' })).not.toHaveProperty('sender');
    expect(bodyOf(at.standIn.received[0])['from']).toBe('Acme Shop');
    expect(bodyOf(bySms.standIn.received[0])['from']).toBe('15005550009');
  });

  test.each([account, smsAccount])('an alphanumeric sender keeps its plus', async (sent) => {
    await using at = await setup(sent);
    await at.send({ from: '+Acme' });
    expect(bodyOf(at.standIn.received[0])['from']).toBe('+Acme');
  });

  test('ttl ends when the message expires, with a minimum of 20 s', async () => {
    await using at = await setup(account);
    await using bySms = await setup(smsAccount);
    for (const [left, seconds] of [
      [600_500, 600],
      [1_000, 20],
    ] as const) {
      await at.send({ expiresAt: Date.now() + left });
      await bySms.send({ expiresAt: Date.now() + left });
      for (const ttl of [
        Number(bodyOf(at.standIn.received.at(-1))['ttl']),
        Number(bodyOf(bySms.standIn.received.at(-1))['ttl']) / 1_000,
      ]) {
        expect(ttl).toBeGreaterThanOrEqual(Math.max(20, seconds - 10));
        expect(ttl).toBeLessThanOrEqual(seconds + 1);
      }
    }
  });

  test('only a text outside GSM 03.38 is sent as Unicode', async () => {
    await using at = await setup(smsAccount);
    await at.send({ content: { body: 'Café € [1]' } });
    await at.send({ content: { body: 'Привет' } });
    expect(at.standIn.received.map((one) => bodyOf(one)['type'])).toEqual(['text', 'unicode']);
  });

  test.each([
    ['a'.repeat(160)],
    ['a'.repeat(161)],
    ['€'.repeat(80)],
    [`${'a'.repeat(152)}€${'a'.repeat(152)}`],
    ['я'.repeat(70)],
    ['я'.repeat(71)],
    [`${'я'.repeat(66)}😀${'я'.repeat(66)}`],
    ['я'.repeat(402)],
  ])('the stand-in returns one message per segment of %s', async (body) => {
    await using at = await setup(smsAccount);
    const text = { from: 'Acme', to: '15551230001', text: body };
    const { encoding, segments } = smsSegments(body);
    const answer = await fetch(`${at.standIn.origin}/sms/json`, {
      method: 'POST',
      headers: { authorization: 'Basic eDp5' },
      body: JSON.stringify({ ...text, type: encoding === 'GSM-7' ? 'text' : 'unicode' }),
    });
    const { messages } = (await answer.json()) as { messages: object[] };
    expect(messages).toHaveLength(segments);
  });

  test('a text too long for the Messages API is rejected without a call', async () => {
    const longest = { content: { body: 'x'.repeat(1_000) } };
    const longer = { content: { body: 'x'.repeat(1_001) } };
    await using byMessages = await setup(account);
    await using bySms = await setup(smsAccount);
    expect(await byMessages.send(longest)).toMatchObject({ kind: 'accepted' });
    expect(await byMessages.send(longer)).toMatchObject({
      kind: 'rejected_permanent',
      failure: { class: 'content_rejected', code: 'body_too_long' },
    });
    expect(byMessages.standIn.received).toHaveLength(1);
    expect(await bySms.send(longer)).toMatchObject({ kind: 'accepted' });
  });

  test('a long text is accepted with the id of its first accepted part', async () => {
    await using at = await setup(smsAccount);
    const part = (id: string, status = '0') => ({ status, 'message-id': id, to: '15551230001' });
    const parts = [part('A1'), part('A2'), part('A3')];
    at.standIn.fail({ kind: 'reply', status: 200, body: { 'message-count': '3', messages: parts } });
    expect(await at.send()).toMatchObject({ kind: 'accepted', providerMessageId: 'A1' });
    const broken = [{ status: '5', 'error-text': 'Internal Error' }, part('B2')];
    at.standIn.fail({ kind: 'reply', status: 200, body: { 'message-count': '2', messages: broken } });
    expect(await at.send()).toMatchObject({ kind: 'accepted', providerMessageId: 'B2' });
  });

  test("a rejection's text, receipt URL and number are redacted", async () => {
    await using at = await setup(account);
    const detail = `No: ${message.content.body} ${message.receiptUrl} 15551230001`;
    at.standIn.fail({ kind: 'reply', ...problem(422, 1150, { detail }) });
    expect(await at.send()).toMatchObject({
      failure: { providerMessage: 'No: [redacted] [redacted] [redacted]' },
    });
  });

  test("the credential check compares the private key with the application's public key", async () => {
    await using at = await setup(account);
    expect(await at.verify()).toEqual({ kind: 'valid' });
    expect(at.standIn.received.map(({ path }) => path)).toEqual([
      '/account/get-balance',
      `/v2/applications/${APPLICATION}`,
    ]);
    await using other = await setup(account, pair().publicKey);
    expect(await other.verify()).toMatchObject({
      kind: 'invalid',
      failure: { class: 'auth_or_config', code: 'private_key_mismatch' },
    });
    for (const told of ['', 'not a key']) {
      await using silent = await setup(account, told);
      expect(await silent.verify()).toEqual({ kind: 'valid' });
    }
  });

  test.each([
    [{ kind: 'reply', ...problem(404, 'not-found') }, 'invalid', 'unknown_application'],
    [{ kind: 'reply', ...problem(403, 'forbidden') }, 'invalid', 'forbidden'],
    [{ kind: 'reply', status: 503, body: '' }, 'unknown', 'http_503'],
    [{ kind: 'reply', status: 200, body: 'ok' }, 'unknown', 'unreadable_response'],
    [{ kind: 'reset' }, 'unknown', 'connection_reset'],
  ] as const)(
    'the credential check returns for the application answer %j: %s, %s',
    async (fault, kind, code) => {
      await using at = await setup(account);
      at.standIn.fail(fault, /applications/);
      expect(await at.verify()).toMatchObject({ kind, failure: { code } });
    },
  );

  test.each([
    ['14', 'auth_or_config', true],
    ['8', 'auth_or_config', true],
    ['10', 'provider_throttled', true],
    ['17', 'content_rejected', false],
    ['22', 'content_rejected', false],
    ['23', 'auth_or_config', true],
    ['29', 'sender_rejected', false],
  ])('status %s of the SMS API is %s, retry %s', (code, failureClass, retry) => {
    expect(SMS_CODES[code]).toMatchObject({ class: failureClass, retry });
  });

  test.each([
    ['1022', 'content_rejected', false],
    ['1060', 'auth_or_config', true],
    ['1180', 'recipient_unavailable', true],
    ['1190', 'invalid_recipient', false],
    ['1251', 'recipient_unavailable', false],
    ['1282', 'content_rejected', false],
    ['1300', 'invalid_recipient', false],
    ['1330', 'provider_unavailable', true],
    ['1340', 'content_rejected', false],
    ['1420', 'sender_rejected', false],
    ['1430', 'invalid_recipient', false],
    ['1440', 'content_rejected', false],
    ['1460', 'provider_throttled', true],
    ['1461', 'recipient_unavailable', false],
    ['1472', 'provider_throttled', true],
    ['1473', 'sender_rejected', false],
    ['1474', 'sender_rejected', false],
    ['1480', 'sender_rejected', false],
    ['1482', 'content_rejected', false],
    ['1490', 'unknown', false],
    ['2001', 'sender_rejected', false],
    ['application-suspended', 'auth_or_config', true],
    ['unavailable-legal', 'auth_or_config', true],
  ])('code %s of the Messages API is %s, retry %s', (code, failureClass, retry) => {
    expect(MESSAGES_CODES[code]).toMatchObject({ class: failureClass, retry });
  });
});
