import { describe, expect, test } from 'vitest';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { MESSAGEBIRD_CODES, MESSAGEBIRD_REASONS } from './outcomes.ts';
import messagebird from './provider.ts';
import { startMessagebirdStandIn } from './stand-in.ts';

const account = {
  publicConfig: { originator: '+15005550006' },
  secretConfig: { accessKey: 'live_canary_access_key', signingKey: 'canary-signing-key' },
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

const refusal = (status: number, code: number, parameter: string | null = null) => ({
  status,
  body: { errors: [{ code, description: 'Refused', parameter }] },
});
const permanently = (failure: object) => ({ kind: 'rejected_permanent', failure }) as never;
const transiently = (failure: object) => ({ kind: 'rejected_transient', failure }) as never;

httpProviderSuite({
  provider: messagebird,
  startStandIn: startMessagebirdStandIn,
  account,
  otherSettings: { originator: 'Other' },
  message,
  sendPath: /^\/messages$/,
  verifyPath: /^\/balance$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.headers).toMatchObject({
      authorization: 'AccessKey live_canary_access_key',
      accept: 'application/json',
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      originator: '15005550006',
      recipients: ['15551230001'],
      body: 'Grüße & 100% +1',
      type: 'sms',
      datacoding: 'auto',
      reference: message.id,
      reportUrl: 'https://hooks.example/v1/receipts/a/t0ken',
    });
  },
  sender: account.publicConfig.originator,
  providerMessageId: /^[0-9a-f]{32}$/,
  errorBody: (description) => ({ errors: [{ code: 21, description, parameter: null }] }),
  refusals: [
    {
      reply: refusal(422, 9, 'recipients'),
      outcome: permanently({
        class: 'invalid_recipient',
        code: 'invalid_number',
        providerCode: '9',
        providerMessage: 'Refused',
        httpStatus: 422,
      }),
    },
    {
      reply: {
        status: 422,
        body: {
          errors: [
            {
              code: 9,
              description:
                'no (correct) recipients found. Note: during your test period you can only send messages to your own number (316…).',
              parameter: 'recipient',
            },
          ],
        },
      },
      outcome: permanently({ class: 'sender_rejected', code: 'trial_restriction', providerCode: '9' }),
    },
    {
      reply: refusal(422, 10, 'originator'),
      outcome: permanently({ class: 'sender_rejected', code: 'invalid_sender', providerCode: '10' }),
    },
    {
      reply: refusal(422, 10, 'body'),
      outcome: permanently({ class: 'content_rejected', code: 'invalid_message', providerCode: '10' }),
    },
    {
      reply: refusal(422, 10, 'validity'),
      outcome: permanently({ class: 'unknown', code: 'invalid_request', providerCode: '10' }),
    },
    {
      reply: refusal(404, 20),
      outcome: permanently({ class: 'unknown', code: 'not_found', providerCode: '20' }),
    },
    {
      reply: refusal(401, 2, 'access_key'),
      outcome: transiently({ class: 'auth_or_config', code: 'authentication_failed', providerCode: '2' }),
    },
    {
      reply: refusal(422, 2, 'access_key'),
      outcome: transiently({ class: 'auth_or_config', code: 'authentication_failed', providerCode: '2' }),
    },
    {
      reply: refusal(422, 25),
      outcome: transiently({ class: 'auth_or_config', code: 'insufficient_credit', providerCode: '25' }),
    },
    {
      reply: refusal(500, 99),
      outcome: transiently({ class: 'provider_unavailable', code: 'provider_error', providerCode: '99' }),
    },
    {
      reply: refusal(429, 7),
      outcome: transiently({ class: 'provider_throttled', code: 'rate_limited', providerCode: '7' }),
    },
    {
      reply: refusal(422, 7, 'body'),
      outcome: permanently({ class: 'unknown', code: 'http_422', providerCode: '7' }),
    },
  ],
  wrongCredential: refusal(401, 2, 'access_key'),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.originator', 'secretConfig.accessKey'],
    },
    {
      account: {
        publicConfig: { originator: 'not a sender at all' },
        secretConfig: { accessKey: 'has space inside', signingKey: 'has space too' },
      },
      fields: ['publicConfig.originator', 'secretConfig.accessKey', 'secretConfig.signingKey'],
    },
  ],
});

describe('messagebird', () => {
  const sent = async (over: object) => {
    await using http = createHttpClient();
    await using standIn = await startMessagebirdStandIn();
    const credentials = { config: { originator: '+15005550006' }, secrets: { accessKey: 'key' } };
    const context = contextAt(messagebird, http, standIn.origin);
    const outcome = await messagebird.send({ ...message, ...over }, credentials, context);
    return { outcome, body: JSON.parse(standIn.received[0]?.body ?? '') as Record<string, unknown> };
  };

  test("the message's sender overrides the account's, and an alphanumeric one is sent unchanged", async () => {
    const { outcome, body } = await sent({ from: 'Acme +1' });
    expect(body).toMatchObject({ originator: 'Acme +1' });
    expect(outcome).toMatchObject({ kind: 'accepted', sender: 'Acme +1' });
  });

  test('the validity ends when the message expires', async () => {
    const { body } = await sent({ expiresAt: Date.now() + 600_500 });
    expect(body['validity']).toBeGreaterThan(595);
    expect(body['validity']).toBeLessThanOrEqual(600);
    expect((await sent({ expiresAt: Date.now() + 10 })).body['validity']).toBe(1);
  });

  test('without a receipt URL no reports are requested', async () => {
    const { body } = await sent({ receiptUrl: undefined });
    expect(body).not.toHaveProperty('reportUrl');
    expect(body).toMatchObject({ reference: message.id });
  });

  test.each([
    ['1', 'invalid_recipient', false],
    ['27', 'recipient_unavailable', true],
    ['34', 'provider_unavailable', true],
    ['103', 'recipient_unavailable', false],
    ['104', 'sender_rejected', false],
    ['insufficient balance', 'auth_or_config', true],
    ['capacity limit reached', 'provider_throttled', true],
  ])('a report with %s is %s, retry %s', (word, failureClass, retry) => {
    expect({ ...MESSAGEBIRD_CODES, ...MESSAGEBIRD_REASONS }[word]).toMatchObject({
      class: failureClass,
      retry,
    });
  });
});
