import { describe, expect, test } from 'vitest';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { SINCH_CODES } from './outcomes.ts';
import sinch from './provider.ts';
import { startSinchStandIn } from './stand-in.ts';

const PLAN = 'jd63jf88477ll123ab4567cd89012ef3';
const account = {
  publicConfig: { servicePlanId: PLAN, region: 'eu', from: '+15005550006' },
  secretConfig: { apiToken: 'canary-api-token', webhookSecret: 'canary-webhook-secret' },
};
const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Grüße & 100% +1' },
  expiresAt: Date.UTC(2040, 0, 1),
  receiptUrl: 'https://hooks.example/v1/receipts/a/t0ken',
  attempt: 1,
} as const;

const refusal = (status: number, code: string, text = 'Refused') => ({ status, body: { code, text } });
const permanently = (failure: object) => ({ kind: 'rejected_permanent', failure }) as never;
const transiently = (failure: object) => ({ kind: 'rejected_transient', failure }) as never;

httpProviderSuite({
  provider: sinch,
  startStandIn: startSinchStandIn,
  account,
  otherSettings: { servicePlanId: 'another-plan', region: 'br', from: 'Other' },
  message,
  sendPath: /\/batches$/,
  verifyPath: /\/batches\?page_size=1$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe(`/xms/v1/${PLAN}/batches`);
    expect(received.headers).toMatchObject({
      authorization: 'Bearer canary-api-token',
      accept: 'application/json',
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      from: '15005550006',
      to: ['15551230001'],
      body: 'Grüße & 100% +1',
      type: 'mt_text',
      client_reference: message.id,
      delivery_report: 'per_recipient',
      callback_url: 'https://hooks.example/v1/receipts/a/t0ken',
    });
  },
  sender: account.publicConfig.from,
  providerMessageId: /^01[0-9A-F]{24}$/,
  errorBody: (text) => ({ code: 'syntax_invalid_parameter_format', text }),
  refusals: [
    {
      reply: refusal(400, 'syntax_invalid_parameter_format', 'Not a number'),
      outcome: permanently({
        class: 'unknown',
        code: 'invalid_request',
        providerCode: 'syntax_invalid_parameter_format',
        providerMessage: 'Not a number',
        httpStatus: 400,
      }),
    },
    {
      reply: refusal(403, 'unknown_group'),
      outcome: permanently({ class: 'invalid_recipient', code: 'invalid_number' }),
    },
    {
      reply: refusal(403, 'unknown_campaign'),
      outcome: permanently({ class: 'sender_rejected', code: 'sender_unregistered' }),
    },
    ...['illegal_number_type', 'llegal_number_type'].map((code) => ({
      reply: refusal(403, code),
      outcome: permanently({
        class: 'invalid_recipient',
        code: 'unreachable_number',
        providerCode: code,
      }),
    })),
    {
      reply: refusal(403, 'blocked_account'),
      outcome: transiently({ class: 'auth_or_config', code: 'account_suspended' }),
    },
    {
      reply: refusal(403, 'missing_callback_url'),
      outcome: transiently({ class: 'auth_or_config', code: 'missing_callback_url' }),
    },
    {
      reply: { status: 401, body: '' },
      outcome: transiently({ class: 'auth_or_config', code: 'authentication_failed', httpStatus: 401 }),
    },
    {
      reply: { status: 429, body: '' },
      outcome: transiently({ class: 'provider_throttled', code: 'rate_limited' }),
    },
    {
      reply: refusal(500, 'internal_error'),
      outcome: transiently({ class: 'provider_unavailable', code: 'http_500' }),
    },
    {
      reply: refusal(400, 'a_code_of_tomorrow'),
      outcome: permanently({ class: 'unknown', code: 'http_400', providerCode: 'a_code_of_tomorrow' }),
    },
  ],
  wrongCredential: { status: 401, body: '' },
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.servicePlanId', 'secretConfig.apiToken'],
    },
    {
      account: {
        publicConfig: { servicePlanId: '../evil', region: 'evil.example/', from: 'not a sender at all' },
        secretConfig: { apiToken: 'has space inside', webhookSecret: 'has space too' },
      },
      fields: [
        'publicConfig.servicePlanId',
        'publicConfig.region',
        'publicConfig.from',
        'secretConfig.apiToken',
        'secretConfig.webhookSecret',
      ],
    },
  ],
});

describe('sinch', () => {
  const sent = async (from: string | undefined, over: object = {}) => {
    await using http = createHttpClient();
    await using standIn = await startSinchStandIn();
    const config = { servicePlanId: PLAN, region: 'us' as const, ...(from === undefined ? {} : { from }) };
    const context = contextAt(sinch, http, standIn.origin);
    const credentials = { config, secrets: { apiToken: 'token' } };
    const outcome = await sinch.send({ ...message, ...over }, credentials, context);
    return { outcome, body: JSON.parse(standIn.received[0]?.body ?? '') as Record<string, unknown> };
  };

  test("the message's sender overrides the account's, and an alphanumeric one is sent unchanged", async () => {
    const { outcome, body } = await sent('+15005550006', { from: 'Acme +1' });
    expect(body).toMatchObject({ from: 'Acme +1' });
    expect(outcome).toMatchObject({ kind: 'accepted', sender: 'Acme +1' });
  });

  test('without a sender, Sinch uses the default originator of the service plan', async () => {
    const { outcome, body } = await sent(undefined);
    expect(body).not.toHaveProperty('from');
    expect(outcome).toMatchObject({ kind: 'accepted' });
    expect(outcome).not.toHaveProperty('sender');
  });

  test('expire_at is sent for a message that expires within three days', async () => {
    const expiresAt = Date.now() + 600_000;
    expect((await sent('Acme', { expiresAt })).body).toMatchObject({
      expire_at: new Date(expiresAt).toISOString(),
    });
    expect((await sent('Acme')).body).not.toHaveProperty('expire_at');
  });

  test('without a receipt URL no reports are requested', async () => {
    const { body } = await sent('Acme', { receiptUrl: undefined });
    expect(body).toMatchObject({ delivery_report: 'none' });
    expect(body).not.toHaveProperty('callback_url');
  });

  test('placeholders in a text are sent literally', async () => {
    const { body } = await sent('Acme', { content: { body: 'Costs ${price} or ${a b}, ${price} $' } });
    expect(body).toMatchObject({
      body: 'Costs ${price} or ${a b}, ${price} $',
      parameters: { price: { default: '${price}' } },
    });
    expect(Object.keys(body['parameters'] as object)).toEqual(['price']);
  });

  test.each([
    [402, 'recipient_unavailable', false],
    [404, 'provider_unavailable', true],
    [410, 'sender_rejected', false],
    [411, 'content_rejected', false],
    [413, 'auth_or_config', true],
  ])('code %i is %s, retry %s', (code, failureClass, retry) => {
    expect(SINCH_CODES[code]).toMatchObject({ class: failureClass, retry });
  });
});
