import { describe, expect, test } from 'vitest';
import { httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt } from '#test/suites/provider-conformance.ts';
import { TWILIO_CODES } from './outcomes.ts';
import definitions from './provider.ts';
import { startTwilioStandIn } from './stand-in.ts';

const [twilio] = definitions;
const ACCOUNT_SID = `AC${'0123456789abcdef'.repeat(2)}`;
const account = {
  publicConfig: { accountSid: ACCOUNT_SID, from: '+15005550006' },
  secretConfig: { authToken: 'canary-auth-token-1' },
};
const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Grüße & 100% +1' },
  expiresAt: Date.now() + 24 * 3_600_000,
  attempt: 1,
} as const;

const refusal = (status: number, code: number) => ({
  status,
  body: { code, message: 'Refused', more_info: 'https://www.twilio.com/docs', status },
});

httpProviderSuite({
  provider: twilio,
  startStandIn: startTwilioStandIn,
  account,
  otherSettings: {
    accountSid: `AC${'1'.repeat(32)}`,
    apiKeySid: `SK${'1'.repeat(32)}`,
    region: 'au1',
    edge: 'sydney',
    from: 'Other',
    messagingServiceSid: `MG${'1'.repeat(32)}`,
  },
  message,
  sendPath: /\/Messages\.json$/,
  verifyPath: /\/Accounts\/\w+\.json$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe(`/2010-04-01/Accounts/${ACCOUNT_SID}/Messages.json`);
    expect(received.headers).toMatchObject({
      authorization: `Basic ${btoa(`${ACCOUNT_SID}:canary-auth-token-1`)}`,
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
    });
    expect([...new URLSearchParams(received.body)]).toEqual([
      ['To', '+15551230001'],
      ['From', '+15005550006'],
      ['Body', 'Grüße & 100% +1'],
    ]);
  },
  sender: account.publicConfig.from,
  providerMessageId: /^SM[0-9a-f]{32}$/,
  errorBody: (text) => ({ code: 20001, message: text, status: 400 }),
  refusals: [
    {
      reply: refusal(400, 21211),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'invalid_number',
          providerCode: '21211',
          providerMessage: 'Refused',
          httpStatus: 400,
        },
      },
    },
    {
      reply: refusal(400, 21610),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '21610' },
      },
    },
    {
      reply: refusal(400, 21606),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'invalid_sender', providerCode: '21606' },
      },
    },
    {
      reply: refusal(400, 21617),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'body_too_long', providerCode: '21617' },
      },
    },
    {
      reply: refusal(401, 20003),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'authentication_failed', providerCode: '20003' },
      },
    },
    {
      reply: refusal(404, 20404),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'account_not_found', providerCode: '20404' },
      },
    },
    {
      reply: refusal(402, 1),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'insufficient_credit', providerCode: '1' },
      },
    },
    {
      reply: refusal(429, 20429),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', code: 'rate_limited', providerCode: '20429' },
      },
    },
    {
      reply: refusal(400, 21611),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', code: 'sender_queue_full', providerCode: '21611' },
      },
    },
    {
      reply: refusal(503, 20503),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: '20503' },
      },
    },
    {
      reply: refusal(400, 99999),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'unknown', code: 'http_400', providerCode: '99999' },
      },
    },
    {
      reply: {
        status: 400,
        body: { type: 'about:blank', title: 'Bad', status: 400, code: 21614, detail: 'Not mobile' },
      },
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'invalid_recipient', code: 'unreachable_number', providerMessage: 'Not mobile' },
      },
    },
  ],
  wrongCredential: refusal(401, 20003),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.accountSid', 'secretConfig.authToken'],
    },
    {
      account: {
        publicConfig: { accountSid: 'wrong-account-sid', from: '+15005550006' },
        secretConfig: { authToken: 'has space inside' },
      },
      fields: ['publicConfig.accountSid', 'secretConfig.authToken'],
    },
    {
      account: { publicConfig: { accountSid: ACCOUNT_SID }, secretConfig: account.secretConfig },
      fields: ['publicConfig.from'],
    },
    {
      account: {
        publicConfig: { ...account.publicConfig, region: 'evil.example/' },
        secretConfig: account.secretConfig,
      },
      fields: ['publicConfig.region'],
    },
    {
      account: {
        publicConfig: { ...account.publicConfig, apiKeySid: `SK${'0'.repeat(32)}` },
        secretConfig: account.secretConfig,
      },
      fields: ['secretConfig.apiKeySecret'],
    },
    {
      account: {
        publicConfig: { ...account.publicConfig, account_sid: `AC${'f'.repeat(32)}` },
        secretConfig: account.secretConfig,
      },
      fields: ['publicConfig.accountSid'],
    },
  ],
});

describe('twilio', () => {
  const edgeCase = async (
    config: Record<string, string>,
    over: object,
    check: (body: URLSearchParams, authorization: string) => void,
  ) => {
    await using http = createHttpClient();
    await using standIn = await startTwilioStandIn();
    const secrets = { authToken: 'token', apiKeySecret: 'key-secret' };
    const context = contextAt(twilio, http, standIn.origin);
    await twilio.send(
      { ...message, ...over },
      { config: { accountSid: ACCOUNT_SID, ...config }, secrets },
      context,
    );
    const [received] = standIn.received;
    check(new URLSearchParams(received?.body), received?.headers['authorization'] ?? '');
  };

  test("the message's sender overrides the account's", async () => {
    await edgeCase({ messagingServiceSid: `MG${'0'.repeat(32)}` }, { from: '+15005550009' }, (body) => {
      expect(body.get('From')).toBe('+15005550009');
      expect(body.has('MessagingServiceSid')).toBe(false);
    });
  });

  test('a messaging service is sent without a From number', async () => {
    await edgeCase({ messagingServiceSid: `MG${'0'.repeat(32)}` }, {}, (body) => {
      expect(body.get('MessagingServiceSid')).toBe(`MG${'0'.repeat(32)}`);
      expect(body.has('From')).toBe(false);
    });
  });

  test('an API key authenticates instead of the auth token', async () => {
    const apiKeySid = `SK${'0'.repeat(32)}`;
    await edgeCase({ from: '+15005550006', apiKeySid }, {}, (_, authorization) => {
      expect(authorization).toBe(`Basic ${btoa(`${apiKeySid}:key-secret`)}`);
    });
  });

  test('the credential check of an API key lists messages instead of reading the account', async () => {
    await using http = createHttpClient();
    await using standIn = await startTwilioStandIn();
    const config = { ...account.publicConfig, apiKeySid: `SK${'0'.repeat(32)}` };
    const secrets = { apiKeySecret: 'key-secret' };
    const verify = () => twilio.verify({ config, secrets } as never, contextAt(twilio, http, standIn.origin));
    expect(await verify()).toEqual({ kind: 'valid' });
    expect(standIn.received[0]?.path).toMatch(/\/Messages\.json\?PageSize=1$/);
    standIn.fail({ kind: 'reply', status: 401, body: { code: 20003, message: 'Authenticate', status: 401 } });
    expect(await verify()).toMatchObject({ kind: 'invalid' });
  });

  test.each([
    [401, 70051],
    [403, 70051],
    [403, 20003],
  ])(
    'the credential check of a key that may only send returns unknown: %i, code %i',
    async (status, code) => {
      await using http = createHttpClient();
      await using standIn = await startTwilioStandIn();
      standIn.fail({ kind: 'reply', ...refusal(status, code) });
      const config = { ...account.publicConfig, apiKeySid: `SK${'0'.repeat(32)}` };
      const secrets = { authToken: 'token', apiKeySecret: 'key-secret' };
      expect(await twilio.verify({ config, secrets }, contextAt(twilio, http, standIn.origin))).toMatchObject(
        {
          kind: 'unknown',
          failure: { class: 'auth_or_config', providerCode: String(code) },
        },
      );
    },
  );

  test('the credential check of an auth token that may not read its account returns invalid', async () => {
    await using http = createHttpClient();
    await using standIn = await startTwilioStandIn();
    standIn.fail({ kind: 'reply', ...refusal(401, 70051) });
    const secrets = { authToken: 'token' };
    expect(
      await twilio.verify({ config: account.publicConfig, secrets }, contextAt(twilio, http, standIn.origin)),
    ).toMatchObject({ kind: 'invalid' });
  });

  test('ValidityPeriod ends when the message expires', async () => {
    await edgeCase({ from: '+15005550006' }, { expiresAt: Date.now() + 600_500 }, (body) => {
      expect(Number(body.get('ValidityPeriod'))).toBeGreaterThan(595);
      expect(Number(body.get('ValidityPeriod'))).toBeLessThanOrEqual(600);
    });
  });

  test.each([
    ['20003', 'auth_or_config', true],
    ['20429', 'provider_throttled', true],
    ['21211', 'invalid_recipient', false],
    ['21267', 'sender_rejected', false],
    ['21401', 'sender_rejected', false],
    ['21408', 'sender_rejected', false],
    ['21609', 'auth_or_config', true],
    ['21610', 'recipient_unavailable', false],
    ['21612', 'sender_rejected', false],
    ['21635', 'invalid_recipient', false],
    ['21657', 'sender_rejected', false],
    ['21730', 'provider_unavailable', true],
    ['30002', 'auth_or_config', true],
    ['30003', 'recipient_unavailable', true],
    ['30007', 'content_rejected', false],
    ['63038', 'provider_throttled', true],
  ])('code %s is %s, retry %s', (code, failureClass, retry) => {
    expect(TWILIO_CODES[code]).toMatchObject({ class: failureClass, retry });
  });

  // https://www.twilio.com/docs/api/errors
  test.each([
    [21618, 'content_rejected', 'invalid_content', false],
    [21619, 'content_rejected', 'empty_body', false],
    [21658, 'content_rejected', 'body_too_long', false],
    [21662, 'sender_rejected', 'route_not_available', false],
    [21663, 'sender_rejected', 'invalid_sender', false],
    [21668, 'sender_rejected', 'invalid_sender', false],
    [21910, 'sender_rejected', 'invalid_sender', false],
    [30016, 'sender_rejected', 'invalid_sender', false],
    [30020, 'provider_unavailable', 'provider_error', true],
    [30021, 'provider_unavailable', 'provider_error', true],
    [30033, 'sender_rejected', 'sender_blocked', false],
    [30035, 'sender_rejected', 'sender_unregistered', false],
    [30037, 'auth_or_config', 'account_suspended', true],
    [30038, 'content_rejected', 'blocked', false],
    [30040, 'sender_rejected', 'sender_unregistered', false],
    [30041, 'sender_rejected', 'sender_unregistered', false],
    [30042, 'sender_rejected', 'sender_blocked', false],
    [30043, 'sender_rejected', 'route_not_available', false],
    [30044, 'sender_rejected', 'trial_restriction', false],
    [30450, 'sender_rejected', 'fraud_suspected', false],
    [30453, 'sender_rejected', 'fraud_suspected', false],
    [30454, 'provider_throttled', 'daily_cap_reached', true],
    [30485, 'sender_rejected', 'fraud_suspected', false],
    [30500, 'provider_unavailable', 'provider_error', true],
  ])('code %i is %s, %s, retry %s', (code, failureClass, ourCode, retry) => {
    expect(TWILIO_CODES[code]).toEqual({ class: failureClass, code: ourCode, retry });
  });

  test.each([21268, 21421])('code %i is unreachable_number, which causes no suppression', async (code) => {
    await using http = createHttpClient();
    await using standIn = await startTwilioStandIn();
    standIn.fail({ kind: 'reply', ...refusal(400, code) });
    const config = { accountSid: ACCOUNT_SID, from: '+15005550006' };
    expect(
      await twilio.send(
        message,
        { config, secrets: { authToken: 'token' } },
        contextAt(twilio, http, standIn.origin),
      ),
    ).toMatchObject({
      kind: 'rejected_permanent',
      failure: { class: 'invalid_recipient', code: 'unreachable_number', providerCode: String(code) },
    });
  });
});
