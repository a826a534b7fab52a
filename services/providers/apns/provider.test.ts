import { generateKeyPairSync } from 'node:crypto';
import { decodeProtectedHeader, importSPKI, jwtVerify } from 'jose';
import { describe, expect, test } from 'vitest';
import type { OutboundFor, PushContent } from '#core/domain/message/content.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { createProviderContexts } from '#providers/context.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import type { Reply } from '../stand-in.ts';
import { apnsHeaders, apnsPayload } from './notification.ts';
import { APNS_REASONS } from './outcomes.ts';
import apns from './provider.ts';
import { startApnsStandIn } from './stand-in.ts';

const pairOf = (namedCurve: string) =>
  generateKeyPairSync('ec', {
    namedCurve,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
const { privateKey, publicKey } = pairOf('P-256');
const DEVICE = 'ab12'.repeat(16);
const account = {
  publicConfig: { teamId: 'TEAM123456', keyId: 'KEY1234567', bundleId: 'com.example.app' },
  secretConfig: { privateKey },
};
const credentials = {
  config: { ...account.publicConfig, environment: 'production' },
  secrets: account.secretConfig,
} as const;
const message = {
  channel: 'push',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: DEVICE,
  content: {
    title: 'Hi',
    body: 'There',
    data: { a: 'x', n: 1, o: { p: true } },
    badge: 3,
    sound: 'ding.caf',
    collapseKey: 'k',
  },
  expiresAt: Date.UTC(2100, 0, 1),
  attempt: 1,
} as const;

const refusal = (status: number, reason: string, over: object = {}): Reply => ({
  status,
  body: { reason, ...over },
});
const permanently = (failureClass: string, code: string) =>
  ({ kind: 'rejected_permanent', failure: { class: failureClass, code } }) as never;
const forNow = (failureClass: string, code: string) =>
  ({ kind: 'rejected_transient', failure: { class: failureClass, code } }) as never;

httpProviderSuite({
  provider: apns,
  startStandIn: startApnsStandIn,
  account,
  otherSettings: {
    teamId: 'TEAM654321',
    keyId: 'KEY7654321',
    bundleId: 'com.example.other',
    environment: 'sandbox',
  },
  message,
  sendPath: /^\/3\/device\/ab12/,
  verifyPath: /^\/3\/device\/0{64}$/,
  request: (received) => {
    expect([received.method, received.path]).toEqual(['POST', `/3/device/${DEVICE}`]);
    expect(received.headers).toMatchObject({
      authorization: expect.stringMatching(/^bearer [\w-]+\.[\w-]+\.[\w-]{86}$/) as string,
      'content-type': 'application/json',
      'apns-id': message.id,
      'apns-topic': 'com.example.app',
      'apns-push-type': 'alert',
      'apns-priority': '10',
      'apns-expiration': '4102444800',
      'apns-collapse-id': 'k',
    });
    expect(JSON.parse(received.body)).toEqual({
      aps: { alert: { title: 'Hi', body: 'There' }, badge: 3, sound: 'ding.caf' },
      a: 'x',
      n: '1',
      o: '{"p":true}',
    });
  },
  sender: undefined,
  providerMessageId: new RegExp(`^${message.id}$`),
  errorBody: (text) => ({ reason: text }),
  refusals: [
    {
      reply: refusal(410, 'Unregistered', { timestamp: Date.UTC(2026, 10, 22, 12) }),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'unregistered',
          providerCode: 'Unregistered',
          providerMessage: 'Not a device since 2026-11-22T12:00:00.000Z',
          httpStatus: 410,
        },
      },
    },
    {
      reply: refusal(410, 'ExpiredToken', { timestamp: 8.64e20 }),
      outcome: permanently('invalid_recipient', 'unregistered'),
    },
    { reply: refusal(400, 'BadDeviceToken'), outcome: permanently('invalid_recipient', 'invalid_token') },
    {
      reply: refusal(400, 'DeviceTokenNotForTopic'),
      outcome: permanently('invalid_recipient', 'token_of_other_app'),
    },
    { reply: refusal(413, 'PayloadTooLarge'), outcome: permanently('content_rejected', 'payload_too_large') },
    {
      reply: refusal(400, 'BadCollapseId'),
      outcome: permanently('content_rejected', 'invalid_collapse_key'),
    },
    { reply: refusal(400, 'TopicDisallowed'), outcome: forNow('auth_or_config', 'topic_not_allowed') },
    {
      reply: refusal(403, 'InvalidProviderToken'),
      outcome: forNow('auth_or_config', 'authentication_failed'),
    },
    { reply: refusal(403, 'Forbidden'), outcome: forNow('auth_or_config', 'forbidden') },
    {
      reply: refusal(429, 'TooManyRequests'),
      outcome: forNow('recipient_unavailable', 'recipient_rate_limited'),
    },
    {
      reply: refusal(429, 'TooManyProviderTokenUpdates'),
      outcome: forNow('provider_throttled', 'too_many_token_updates'),
    },
    { reply: refusal(500, 'InternalServerError'), outcome: forNow('provider_unavailable', 'provider_error') },
    {
      reply: { ...refusal(503, 'Shutdown'), headers: { 'retry-after': '3' } },
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: 'Shutdown' },
        retryAfterMs: 3_000,
      },
    },
    { reply: refusal(400, 'SomethingNew'), outcome: permanently('unknown', 'http_400') },
  ],
  wrongCredential: refusal(403, 'InvalidProviderToken'),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: [
        'publicConfig.teamId',
        'publicConfig.keyId',
        'publicConfig.bundleId',
        'secretConfig.privateKey',
      ],
    },
    {
      account: {
        publicConfig: {
          teamId: 'wrong-team-id',
          keyId: 'KEY123456/',
          bundleId: 'wrong bundle',
          environment: 'staging',
        },
        secretConfig: { privateKey: 'not a key' },
      },
      fields: [
        'publicConfig.teamId',
        'publicConfig.keyId',
        'publicConfig.bundleId',
        'publicConfig.environment',
        'secretConfig.privateKey',
      ],
    },
    {
      account: { ...account, secretConfig: { privateKey: pairOf('P-384').privateKey } },
      fields: ['secretConfig.privateKey'],
    },
  ],
});

describe('the provider token of an account', () => {
  /** Provider contexts of one process, with a clock that the test sets. */
  const setup = async () => {
    const http = createHttpClient();
    const standIn = await startApnsStandIn();
    const clock = { now: Date.UTC(2026, 10, 22, 12, 10) };
    const contexts = createProviderContexts({
      http,
      resolve: async () => ({ kind: 'refused', code: 'dns' }),
      baseUrls: { apns: standIn.origin },
      epochMs: () => clock.now,
    });
    const signal = AbortSignal.timeout(20_000);
    const send = (accountId = 'a', config = credentials.config) =>
      apns.send(
        message,
        { ...credentials, config },
        contexts({ provider: 'apns', accountId, version: 1, until: signal }),
      );
    return {
      standIn,
      clock,
      send,
      tokens: () => standIn.received.map(({ headers }) => headers['authorization']?.slice(7) ?? ''),
      [Symbol.asyncDispose]: async () => {
        await http[Symbol.asyncDispose]();
        await standIn[Symbol.asyncDispose]();
      },
    };
  };

  test('is signed with ES256, the key id and the team id', async () => {
    await using stack = await setup();
    await stack.send();
    const [token = ''] = stack.tokens();
    expect(decodeProtectedHeader(token)).toEqual({ alg: 'ES256', kid: 'KEY1234567' });
    const key = await importSPKI(publicKey, 'ES256');
    const { payload } = await jwtVerify(token, key, { currentDate: new Date(stack.clock.now) });
    expect(payload).toEqual({ iss: 'TEAM123456', iat: Date.UTC(2026, 10, 22, 12) / 1_000 });
  });

  test('is reused for 30 minutes by all sends, on one connection', async () => {
    await using stack = await setup();
    await Promise.all(Array.from({ length: 20 }, () => stack.send()));
    stack.clock.now += 29 * 60_000;
    await stack.send();
    expect(new Set(stack.tokens()).size).toBe(1);
    stack.clock.now += 60_000;
    await stack.send();
    expect(new Set(stack.tokens()).size).toBe(2);
    expect(stack.standIn.sessions).toHaveLength(1);
  });

  test('is not sent on a connection of another account', async () => {
    await using stack = await setup();
    for (const accountId of ['a', 'b', 'a']) await stack.send(accountId);
    expect(stack.standIn.sessions).toHaveLength(2);
  });

  test.each([
    ['team', { teamId: 'TEAM654321' }],
    ['key', { keyId: 'KEY7654321' }],
    ['app', { bundleId: 'com.example.other' }],
  ])('is not sent on a connection that was opened for another %s', async (_, changed) => {
    await using stack = await setup();
    await stack.send();
    await stack.send('a', { ...credentials.config, ...changed });
    expect(stack.standIn.sessions).toHaveLength(2);
  });

  test('is replaced once when several concurrent sends are refused as expired', async () => {
    await using stack = await setup();
    for (let i = 0; i < 10; i += 1) {
      stack.standIn.fail({ kind: 'reply', ...refusal(403, 'ExpiredProviderToken') });
    }
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => stack.send()));
    expect(outcomes.map(({ kind }) => kind)).toEqual(Array.from({ length: 10 }, () => 'accepted'));
    const tokens = stack.tokens();
    expect([tokens.length, new Set(tokens).size]).toEqual([20, 2]);
    await stack.send();
    expect(new Set(stack.tokens()).size).toBe(2);
  });

  test('that is refused as expired twice is an auth_or_config failure, without a third token', async () => {
    await using stack = await setup();
    for (let i = 0; i < 3; i += 1) {
      stack.standIn.fail({ kind: 'reply', ...refusal(403, 'ExpiredProviderToken') });
    }
    const expected = forNow('auth_or_config', 'authentication_failed') as object;
    expect([await stack.send(), await stack.send()]).toMatchObject([expected, expected]);
    expect([stack.tokens().length, new Set(stack.tokens()).size]).toEqual([3, 2]);
  });
});

describe('a connection to Apple', () => {
  test('that sends GOAWAY is replaced, and the next send uses the new one', async () => {
    await using http = createHttpClient();
    await using standIn = await startApnsStandIn();
    const context = contextAt(apns, http, standIn.origin);
    expect(await apns.send(message, credentials, context)).toMatchObject({ kind: 'accepted' });
    standIn.sessions[0]?.goaway();
    expect(await apns.send(message, credentials, context)).toMatchObject({ kind: 'accepted' });
    expect([standIn.received.length, standIn.sessions.length]).toEqual([2, 2]);
  });

  test('that is closed before sending gives a transient failure', async () => {
    const http = async () => ({ kind: 'not_sent', code: 'connection_closed' }) as const;
    const contexts = createProviderContexts({
      http,
      resolve: async () => ({ kind: 'refused', code: 'dns' }),
    });
    const signal = AbortSignal.timeout(20_000);
    const context = contexts({ provider: 'apns', accountId: 'a', version: 1, until: signal });
    expect(await apns.send(message, credentials, context)).toMatchObject(
      forNow('provider_unavailable', 'connection_closed'),
    );
  });
});

describe('a notification', () => {
  const of = (content: PushContent): OutboundFor<'push'> => ({ ...message, content });

  test.each<[name: string, content: PushContent, aps: object, type: string, priority: string]>([
    [
      'with data only is a background push',
      { data: { a: '1' } },
      { 'content-available': 1 },
      'background',
      '5',
    ],
    ['with a badge only is an alert', { badge: 0 }, { badge: 0 }, 'alert', '10'],
    ['with a sound only is an alert', { sound: 'default' }, { sound: 'default' }, 'alert', '10'],
    ['with a title only is an alert', { title: 'Hi' }, { alert: { title: 'Hi' } }, 'alert', '10'],
    ['with a body only is an alert', { body: 'There' }, { alert: { body: 'There' } }, 'alert', '10'],
  ])('%s', (_, content, aps, type, priority) => {
    expect(apnsPayload(content).aps).toEqual(aps);
    expect(apnsHeaders(of(content), 'com.example.app')).toMatchObject({
      'apns-push-type': type,
      'apns-priority': priority,
    });
  });

  test('has no data that overwrites the aps object', () => {
    expect(apnsPayload({ title: 'Hi', data: { aps: 'x' } })).toEqual({ aps: { alert: { title: 'Hi' } } });
  });

  test('without a collapse key has no apns-collapse-id', () => {
    expect(apnsHeaders(of({ title: 'Hi' }), 'com.example.app')).not.toHaveProperty('apns-collapse-id');
  });

  test.each([
    ['order 17', true],
    ['k'.repeat(64), true],
    ['k'.repeat(65), false],
    ['commande-é', false],
    [' order', false],
  ])('with the collapse key %j sends it unchanged: %j', (collapseKey, isShown) => {
    const { 'apns-collapse-id': id } = apnsHeaders(of({ title: 'Hi', collapseKey }), 'com.example.app');
    if (isShown) expect(id).toBe(collapseKey);
    else expect(id).toMatch(/^[\w-]{43}$/);
  });

  test('with a non-ASCII collapse key is accepted with a stable id, and so are later ones', async () => {
    await using http = createHttpClient();
    await using standIn = await startApnsStandIn();
    const context = contextAt(apns, http, standIn.origin);
    const keys = ['заказ-17', 'заказ-17', 'заказ-18', 'order-17'];
    for (const collapseKey of keys) {
      const outcome = await apns.send(of({ title: 'Hi', collapseKey }), credentials, context);
      expect(outcome).toMatchObject({ kind: 'accepted' });
    }
    const [first, again, other, plain] = standIn.received.map(({ headers }) => headers['apns-collapse-id']);
    expect(first).toMatch(/^[\w-]{43}$/);
    expect([again, plain]).toEqual([first, 'order-17']);
    expect(other).not.toBe(first);
  });

  test('with an invalid header value is rejected permanently, without a call', async () => {
    await using http = createHttpClient();
    await using standIn = await startApnsStandIn();
    const outcome = await apns.send(
      { ...message, id: 'заказ' },
      credentials,
      contextAt(apns, http, standIn.origin),
    );
    expect(outcome).toEqual(permanently('content_rejected', 'invalid_request'));
    expect(standIn.received).toEqual([]);
  });

  test('escapes its device token in the path', async () => {
    await using http = createHttpClient();
    await using standIn = await startApnsStandIn();
    const context = contextAt(apns, http, standIn.origin);
    const outcome = await apns.send({ ...message, to: '../../x?y#z' }, credentials, context);
    expect(outcome).toMatchObject(permanently('invalid_recipient', 'invalid_token'));
    expect(standIn.received[0]?.path).toBe('/3/device/..%2F..%2Fx%3Fy%23z');
  });
});

test.each([
  ['MissingDeviceToken', 'invalid_recipient', false],
  ['PayloadEmpty', 'content_rejected', false],
  ['BadTopic', 'auth_or_config', true],
  ['ServiceUnavailable', 'provider_unavailable', true],
])('reason %s is %s, retry %s', (reason, failureClass, retry) => {
  expect(APNS_REASONS[reason]).toMatchObject({ class: failureClass, retry });
});

test.each(['BadEnvironmentKeyIdInToken', 'BadEnvironmentKeyInToken'])(
  'a key of another environment is a wrong credential, as %s',
  (reason) => {
    expect(APNS_REASONS[reason]).toMatchObject({ class: 'auth_or_config', code: 'authentication_failed' });
  },
);
