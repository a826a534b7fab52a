import { describe, expect, test } from 'vitest';
import { causeOfFailure } from '#core/domain/recipient/suppression-cause.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { createProviderContexts } from '#providers/context.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { TELNYX_CODES } from './outcomes.ts';
import telnyx from './provider.ts';
import { startTelnyxStandIn } from './stand-in.ts';

const PUBLIC_KEY = Buffer.alloc(32, 7).toString('base64');
const PROFILE = '4000eba1-a0c0-4563-9925-b25e842a7cb6';
const account = {
  publicConfig: { from: '+15005550006', publicKey: PUBLIC_KEY },
  secretConfig: { apiKey: 'KEY0180C1DF_canary' },
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

const refusal = (status: number, code: string, title = 'Refused', detail = 'Refused in detail') => ({
  status,
  body: { errors: [{ code, title, detail, meta: { url: 'https://developers.telnyx.com' } }] },
});
const pointing = ({ status, body }: ReturnType<typeof refusal>, pointer: string) => ({
  status,
  body: { errors: body.errors.map((error) => ({ ...error, source: { pointer } })) },
});
const permanently = (failure: object) => ({ kind: 'rejected_permanent', failure }) as never;
const transiently = (failure: object) => ({ kind: 'rejected_transient', failure }) as never;

httpProviderSuite({
  provider: telnyx,
  startStandIn: startTelnyxStandIn,
  account,
  otherSettings: {
    from: '+15005550007',
    messagingProfileId: PROFILE,
    publicKey: Buffer.alloc(32, 8).toString('base64'),
  },
  message,
  sendPath: /^\/v2\/messages$/,
  verifyPath: /^\/v2\/balance$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.headers).toMatchObject({
      authorization: 'Bearer KEY0180C1DF_canary',
      accept: 'application/json',
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      from: '+15005550006',
      to: '+15551230001',
      text: 'Grüße & 100% +1',
      type: 'SMS',
      webhook_url: `https://hooks.example/v1/receipts/a/t0ken?mid=${message.id}`,
    });
  },
  sender: account.publicConfig.from,
  providerMessageId: /^[0-9a-f-]{36}$/,
  errorBody: (detail) => ({ errors: [{ code: '10015', title: 'Bad Request', detail }] }),
  refusals: [
    {
      reply: refusal(400, '40310', "Invalid 'to' address", 'Not a number'),
      outcome: permanently({
        class: 'invalid_recipient',
        code: 'invalid_number',
        providerCode: '40310',
        providerMessage: 'Not a number',
        httpStatus: 400,
      }),
    },
    {
      reply: refusal(422, '10016'),
      outcome: permanently({ class: 'unknown', code: 'invalid_number', providerCode: '10016' }),
    },
    {
      reply: pointing(refusal(422, '10016'), '/to'),
      outcome: permanently({ class: 'invalid_recipient', code: 'invalid_number', providerCode: '10016' }),
    },
    {
      reply: pointing(refusal(422, '10016'), '/from'),
      outcome: permanently({ class: 'sender_rejected', code: 'invalid_sender', providerCode: '10016' }),
    },
    {
      reply: pointing(refusal(422, '10002'), '/to/0'),
      outcome: permanently({ class: 'invalid_recipient', code: 'invalid_number', providerCode: '10002' }),
    },
    {
      reply: refusal(422, '10001'),
      outcome: permanently({ class: 'unknown', code: 'inactive_number', providerCode: '10001' }),
    },
    {
      reply: pointing(refusal(422, '10001'), '/to'),
      outcome: permanently({ class: 'invalid_recipient', code: 'inactive_number', providerCode: '10001' }),
    },
    {
      reply: pointing(refusal(422, '10001'), '/from'),
      outcome: permanently({ class: 'sender_rejected', code: 'inactive_number', providerCode: '10001' }),
    },
    {
      reply: refusal(400, '40333', 'Spend limit reached'),
      outcome: transiently({ class: 'provider_throttled', code: 'daily_cap_reached', providerCode: '40333' }),
    },
    {
      reply: refusal(403, '40300', 'Blocked due to STOP message'),
      outcome: permanently({
        class: 'recipient_unavailable',
        code: 'recipient_opted_out',
        providerCode: '40300',
      }),
    },
    {
      reply: refusal(400, '40305'),
      outcome: permanently({ class: 'sender_rejected', code: 'invalid_sender', providerCode: '40305' }),
    },
    {
      reply: refusal(400, '40302'),
      outcome: permanently({ class: 'content_rejected', code: 'body_too_long', providerCode: '40302' }),
    },
    {
      reply: refusal(401, '10009'),
      outcome: transiently({
        class: 'auth_or_config',
        code: 'authentication_failed',
        providerCode: '10009',
      }),
    },
    {
      reply: refusal(403, '20100'),
      outcome: transiently({ class: 'auth_or_config', code: 'insufficient_credit', providerCode: '20100' }),
    },
    {
      reply: refusal(400, '40312'),
      outcome: transiently({ class: 'auth_or_config', code: 'messaging_disabled', providerCode: '40312' }),
    },
    {
      reply: refusal(429, '10011'),
      outcome: transiently({ class: 'provider_throttled', code: 'rate_limited', providerCode: '10011' }),
    },
    {
      reply: refusal(400, '40318'),
      outcome: transiently({ class: 'provider_throttled', code: 'sender_queue_full', providerCode: '40318' }),
    },
    {
      // The request timed out at Telnyx, which may have made a message of it.
      reply: refusal(408, '10008'),
      outcome: {
        kind: 'ambiguous',
        failure: { class: 'provider_unavailable', code: 'provider_timeout', providerCode: '10008' },
      },
    },
    {
      reply: refusal(500, '10007'),
      outcome: transiently({ class: 'provider_unavailable', code: 'provider_error', providerCode: '10007' }),
    },
    {
      reply: refusal(422, '99999'),
      outcome: permanently({ class: 'unknown', code: 'http_422', providerCode: '99999' }),
    },
  ],
  wrongCredential: refusal(401, '10009', 'Authentication failed'),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.publicKey', 'secretConfig.apiKey'],
    },
    {
      account: { publicConfig: { publicKey: PUBLIC_KEY }, secretConfig: account.secretConfig },
      fields: ['publicConfig.from'],
    },
    {
      account: {
        publicConfig: { from: 'Acme', publicKey: PUBLIC_KEY },
        secretConfig: account.secretConfig,
      },
      fields: ['publicConfig.messagingProfileId'],
    },
    {
      account: {
        publicConfig: { from: '+15005550006', messagingProfileId: 'wrong-profile', publicKey: 'wrong-key' },
        secretConfig: { apiKey: 'has space inside' },
      },
      fields: ['publicConfig.messagingProfileId', 'publicConfig.publicKey', 'secretConfig.apiKey'],
    },
  ],
});

describe('telnyx', () => {
  const sent = async (config: Record<string, string>, over: object = {}) => {
    await using http = createHttpClient();
    await using standIn = await startTelnyxStandIn();
    const credentials = { config: { publicKey: PUBLIC_KEY, ...config }, secrets: account.secretConfig };
    const context = contextAt(telnyx, http, standIn.origin);
    const outcome = await telnyx.send({ ...message, ...over }, credentials, context);
    return { outcome, body: JSON.parse(standIn.received[0]?.body ?? '') as Record<string, unknown> };
  };

  test("the message's sender overrides the account's, and the messaging profile is kept", async () => {
    const { outcome, body } = await sent(
      { from: '+15005550006', messagingProfileId: PROFILE },
      { from: 'Acme' },
    );
    expect(body).toMatchObject({ from: 'Acme', messaging_profile_id: PROFILE });
    expect(outcome).toMatchObject({ kind: 'accepted', sender: 'Acme' });
  });

  test("with a messaging profile alone, the sender is taken from Telnyx's answer", async () => {
    const { outcome, body } = await sent({ messagingProfileId: PROFILE });
    expect(body).toMatchObject({ messaging_profile_id: PROFILE });
    expect(body).not.toHaveProperty('from');
    expect(outcome).toMatchObject({ kind: 'accepted', sender: '+15005550000' });
  });

  test('without a receipt URL no reports are requested', async () => {
    const { body } = await sent({ from: '+15005550006' }, { receiptUrl: undefined });
    expect(Object.keys(body).toSorted()).toEqual(['from', 'text', 'to', 'type']);
  });

  test.each([
    ['40001', 'invalid_recipient', false],
    ['40002', 'content_rejected', true],
    ['40003', 'sender_rejected', false],
    ['40006', 'recipient_unavailable', true],
    ['40008', 'recipient_unavailable', true],
    ['40011', 'provider_throttled', true],
    ['40300', 'recipient_unavailable', false],
    ['40019', 'sender_rejected', false],
    ['40020', 'sender_rejected', true],
    ['40155', 'sender_rejected', false],
    ['40304', 'content_rejected', false],
    ['40307', 'sender_rejected', false],
    ['40308', 'sender_rejected', false],
    ['40317', 'content_rejected', false],
    ['40323', 'sender_rejected', false],
    ['40325', 'sender_rejected', false],
    ['40329', 'sender_rejected', false],
    ['40330', 'sender_rejected', true],
    ['40331', 'auth_or_config', true],
    ['40333', 'provider_throttled', true],
    ['20013', 'auth_or_config', true],
  ])('code %s is %s, retry %s', (code, failureClass, retry) => {
    expect(TELNYX_CODES[code]).toMatchObject({ class: failureClass, retry });
  });

  test('a number that a carrier refuses is not suppressed: the recipient may only lack credit', () => {
    const { class: failureClass, code } = TELNYX_CODES['40012'] ?? {};
    expect(failureClass).toBe('invalid_recipient');
    expect(causeOfFailure({ class: failureClass ?? 'unknown', code: code ?? '' })).toBeNull();
  });

  test.each<[status: number, headers: Record<string, string>, wait: number | undefined]>([
    [429, { 'x-ratelimit-reset': '40' }, 40_000],
    [429, { 'x-ratelimit-reset': '40', 'retry-after': '7' }, 7_000],
    [429, { 'x-ratelimit-reset': '0' }, 1_000],
    [429, { 'x-ratelimit-reset': '86400' }, 900_000],
    [429, { 'x-ratelimit-reset': 'soon' }, undefined],
    [429, {}, undefined],
    [500, { 'x-ratelimit-reset': '40' }, undefined],
  ])('a call refused with %i and the headers %j is repeated after %s ms', async (status, headers, wait) => {
    const text = JSON.stringify(refusal(status, status === 429 ? '10011' : '10007').body);
    const contexts = createProviderContexts({
      http: async () => ({ kind: 'response', status, headers, text }),
      resolve: async () => ({ kind: 'refused', code: 'dns' }),
      epochMs: () => Date.now(),
    });
    const until = AbortSignal.timeout(20_000);
    const context = contexts({ provider: 'telnyx', accountId: 'a', version: 1, until });
    const credentials = { config: account.publicConfig, secrets: account.secretConfig };
    const outcome = await telnyx.send(message, credentials, context);
    expect(outcome.kind).toBe('rejected_transient');
    expect('retryAfterMs' in outcome ? outcome.retryAfterMs : undefined).toBe(wait);
  });
});
