import { describe, expect, test } from 'vitest';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { PLIVO_CODES } from './outcomes.ts';
import plivo from './provider.ts';
import { startPlivoStandIn } from './stand-in.ts';

const AUTH_ID = 'MAXXXXXXXXXXXXXXXXXX';
const POWERPACK = '0f3b2a34-1111-4222-8333-444455556666';
const account = {
  publicConfig: { authId: AUTH_ID, from: '+15005550006' },
  secretConfig: { authToken: 'canary-auth-token-1' },
};
const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Grüße & 100% +1' },
  expiresAt: Date.now() + 24 * 3_600_000,
  receiptUrl: 'https://hooks.example/v1/receipts/a/t0ken',
  attempt: 1,
} as const;

const refusal = (status: number, error: string) => ({
  status,
  body: { api_id: '97ceeb52-58b6-11e1-86da-77300b68f8bb', error },
});
const CALLBACK = `https://hooks.example/v1/receipts/a/t0ken?mid=${message.id}`;

httpProviderSuite({
  provider: plivo,
  startStandIn: startPlivoStandIn,
  account,
  otherSettings: {
    authId: 'SAYYYYYYYYYYYYYYYYYY',
    from: 'Other',
    powerpackUuid: POWERPACK,
    dltEntityId: '1101',
    dltTemplateId: '1107',
  },
  message,
  sendPath: /\/Message\/$/,
  verifyPath: /\/Account\/\w+\/$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe(`/v1/Account/${AUTH_ID}/Message/`);
    expect(received.headers).toMatchObject({
      authorization: `Basic ${btoa(`${AUTH_ID}:canary-auth-token-1`)}`,
      accept: 'application/json',
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      src: '+15005550006',
      dst: '15551230001',
      text: 'Grüße & 100% +1',
      type: 'sms',
      url: CALLBACK,
      method: 'POST',
    });
  },
  sender: account.publicConfig.from,
  providerMessageId: /^[0-9a-f-]{36}$/,
  errorBody: (error) => ({ api_id: 'x', error }),
  refusals: [
    {
      reply: refusal(400, 'dst is not a valid phone number'),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'invalid_number',
          providerCode: 'dst',
          providerMessage: 'dst is not a valid phone number',
          httpStatus: 400,
        },
      },
    },
    {
      reply: refusal(400, 'src is not assigned to the account'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'invalid_sender', providerCode: 'src' },
      },
    },
    {
      reply: refusal(400, 'powerpack_uuid was not found'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'invalid_powerpack', providerCode: 'powerpack_uuid' },
      },
    },
    {
      reply: refusal(400, 'text parameter is too long'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_message', providerCode: 'text' },
      },
    },
    {
      reply: refusal(400, '15551230001 is not a valid phone number'),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'invalid_number',
          providerMessage: '[redacted] is not a valid phone number',
        },
      },
    },
    {
      reply: refusal(400, '15005550006 is not a valid phone number'),
      outcome: { kind: 'rejected_permanent', failure: { class: 'unknown', code: 'http_400' } },
    },
    {
      reply: refusal(400, 'This caller ID is not allowed for outbound message'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'invalid_sender' },
      },
    },
    {
      reply: refusal(400, 'src and dst are the same'),
      outcome: { kind: 'rejected_permanent', failure: { class: 'unknown', code: 'http_400' } },
    },
    {
      reply: refusal(422, 'Unprocessable'),
      outcome: { kind: 'rejected_permanent', failure: { class: 'unknown', code: 'http_422' } },
    },
    {
      reply: refusal(402, 'Insufficient credit'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'insufficient_credit' },
      },
    },
    {
      reply: refusal(403, 'Messages to this country are not enabled'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'region_not_permitted', httpStatus: 403 },
      },
    },
    {
      reply: refusal(403, 'The account is suspended'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'forbidden', httpStatus: 403 },
      },
    },
    {
      reply: refusal(429, 'Too many requests for src'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', code: 'rate_limited', httpStatus: 429 },
      },
    },
    {
      reply: {
        status: 202,
        body: {
          api_id: 'x',
          message: 'message(s) queued',
          message_uuid: [],
          invalid_number: ['15551230001'],
        },
      },
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'invalid_recipient', code: 'invalid_number', httpStatus: 202 },
      },
    },
  ],
  wrongCredential: {
    status: 401,
    headers: { 'content-type': 'text/html; charset=utf-8' },
    body: 'Could not verify your access level for that URL.\nYou have to login with proper credentials',
  },
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.authId', 'secretConfig.authToken'],
    },
    {
      account: {
        publicConfig: { authId: '../../evil', from: '+15005550006' },
        secretConfig: { authToken: 'has space inside' },
      },
      fields: ['publicConfig.authId', 'secretConfig.authToken'],
    },
    {
      account: { publicConfig: { authId: AUTH_ID }, secretConfig: account.secretConfig },
      fields: ['publicConfig.from'],
    },
    {
      account: {
        publicConfig: { authId: AUTH_ID, from: 'not a sender at all', powerpackUuid: 'wrong-powerpack' },
        secretConfig: account.secretConfig,
      },
      fields: ['publicConfig.from', 'publicConfig.powerpackUuid'],
    },
  ],
});

describe('plivo', () => {
  const sent = async (config: Record<string, string>, over: object = {}) => {
    await using http = createHttpClient();
    await using standIn = await startPlivoStandIn();
    const credentials = { config: { authId: AUTH_ID, ...config }, secrets: account.secretConfig };
    const context = contextAt(plivo, http, standIn.origin);
    const outcome = await plivo.send({ ...message, ...over }, credentials, context);
    const [received] = standIn.received;
    const body = received === undefined ? undefined : (JSON.parse(received.body) as Record<string, unknown>);
    return { outcome, body };
  };

  test("the message's sender overrides the account's, and a Powerpack overrides its number", async () => {
    const both = { from: '+15005550006', powerpackUuid: POWERPACK };
    const own = await sent(both, { from: '+15005550009' });
    expect(own.body).toMatchObject({ src: '+15005550009' });
    expect(own.body).not.toHaveProperty('powerpack_uuid');
    const chosen = await sent(both);
    expect(chosen.body).toMatchObject({ powerpack_uuid: POWERPACK });
    expect(chosen.body).not.toHaveProperty('src');
    expect(chosen.outcome).toMatchObject({ kind: 'accepted', sender: POWERPACK });
  });

  test('message_expiry ends when the message expires, with a minimum of 5 s', async () => {
    const config = { from: '+15005550006' };
    const soon = await sent(config, { expiresAt: Date.now() + 600_500 });
    expect(soon.body?.['message_expiry']).toBeGreaterThan(595);
    expect(soon.body?.['message_expiry']).toBeLessThanOrEqual(600);
    const now = await sent(config, { expiresAt: Date.now() + 1_000 });
    expect(now.body?.['message_expiry']).toBe(5);
  });

  test('without a receipt URL no reports are requested', async () => {
    const { body } = await sent({ from: '+15005550006' }, { receiptUrl: undefined });
    expect(Object.keys(body ?? {}).toSorted()).toEqual(['dst', 'src', 'text', 'type']);
  });

  test('a text over 737 characters outside the GSM alphabet is rejected without a call', async () => {
    const config = { from: '+15005550006' };
    const long = await sent(config, { content: { body: 'я'.repeat(738) } });
    expect(long.body).toBeUndefined();
    expect(long.outcome).toEqual({
      kind: 'rejected_permanent',
      failure: { class: 'content_rejected', code: 'body_too_long' },
    });
    expect((await sent(config, { content: { body: 'я'.repeat(737) } })).outcome.kind).toBe('accepted');
    expect((await sent(config, { content: { body: 'a'.repeat(1_600) } })).outcome.kind).toBe('accepted');
  });

  test('the credential check returns unknown for an HTML page with status 401', async () => {
    await using http = createHttpClient();
    await using standIn = await startPlivoStandIn();
    standIn.fail({
      kind: 'reply',
      status: 401,
      headers: { 'content-type': 'text/html' },
      body: '<html></html>',
    });
    const credentials = { config: { authId: AUTH_ID, from: 'Acme' }, secrets: account.secretConfig };
    expect(await plivo.verify(credentials, contextAt(plivo, http, standIn.origin))).toMatchObject({
      kind: 'unknown',
    });
  });

  test.each([
    ['10', 'content_rejected', false],
    ['20', 'provider_unavailable', true],
    ['40', 'sender_rejected', false],
    ['50', 'invalid_recipient', false],
    ['70', 'invalid_recipient', false],
    ['80', 'recipient_unavailable', true],
    ['200', 'recipient_unavailable', false],
    ['450', 'sender_rejected', false],
    ['451', 'provider_throttled', true],
    ['900', 'auth_or_config', true],
  ])('code %s is %s, retry %s', (code, failureClass, retry) => {
    expect(PLIVO_CODES[code]).toMatchObject({ class: failureClass, retry });
  });
});
