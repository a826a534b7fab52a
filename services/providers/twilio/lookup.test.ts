import { describe, expect, test } from 'vitest';
import { lookupSuite } from '#test/suites/lookup-conformance.ts';
import definitions from './provider.ts';
import { startTwilioStandIn } from './stand-in.ts';

const [sms, whatsapp] = definitions;
const ACCOUNT_SID = `AC${'0123456789abcdef'.repeat(2)}`;
const from = '+15005550006';
const message = {
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  expiresAt: Date.now() + 24 * 3_600_000,
  attempt: 1,
} as const;

describe.each([
  { provider: sms, message: { ...message, channel: 'sms', content: { body: 'Hello' } } },
  {
    provider: whatsapp,
    message: { ...message, channel: 'whatsapp', content: { kind: 'text', body: 'Hello' } },
  },
] as const)('$provider.id', ({ provider, message }) => {
  lookupSuite({
    provider,
    startStandIn: startTwilioStandIn,
    account: {
      publicConfig: { accountSid: ACCOUNT_SID, from },
      secretConfig: { authToken: 'canary-auth-token-1' },
    },
    message,
    path: /^\/2010-04-01\/Accounts\/\w+\/Messages\/[^/]+\.json$/,
    request: (received, sid) => {
      expect(received.path).toBe(`/2010-04-01/Accounts/${ACCOUNT_SID}/Messages/${sid}.json`);
      expect(received.headers).toMatchObject({
        authorization: `Basic ${btoa(`${ACCOUNT_SID}:canary-auth-token-1`)}`,
        accept: 'application/json',
      });
      expect(received.body).toBe('');
    },
    unknownId: `SM${'0'.repeat(32)}`,
    answers: [
      ...['accepted', 'scheduled', 'queued', 'sending'].map((status) => ({
        body: { status, error_code: null, date_updated: null },
        says: [{ providerStatus: status }],
      })),
      { body: { status: 'sent', error_code: null }, says: [{ providerStatus: 'sent', state: 'sent' }] },
      {
        body: { status: 'delivered', date_updated: 'Thu, 24 Aug 2023 05:01:45 +0000' },
        says: [{ providerStatus: 'delivered', state: 'delivered', at: Date.UTC(2023, 7, 24, 5, 1, 45) }],
      },
      {
        body: { status: 'read', error_code: null },
        says: [{ providerStatus: 'read', state: 'delivered', engagement: 'read' }],
      },
      {
        body: { status: 'undelivered', error_code: 30005, error_message: 'Unknown destination handset' },
        says: [
          {
            providerStatus: 'undelivered',
            state: 'undelivered',
            failure: { class: 'invalid_recipient', code: 'unreachable_number', providerCode: '30005' },
          },
        ],
      },
      {
        body: { status: 'failed', error_code: null },
        says: [
          {
            providerStatus: 'failed',
            state: 'undelivered',
            failure: { class: 'unknown', code: 'undelivered' },
          },
        ],
      },
    ],
    errorBody: (text) => ({ code: 20001, message: text, status: 400 }),
  });
});

test("lookups are by the vendor's id only", () => {
  expect([sms.lookup?.by, whatsapp.lookup?.by]).toEqual(['id', 'id']);
});
