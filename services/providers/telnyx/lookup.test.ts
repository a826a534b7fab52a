import { expect } from 'vitest';
import { lookupSuite } from '#test/suites/lookup-conformance.ts';
import telnyx from './provider.ts';
import { startTelnyxStandIn } from './stand-in.ts';

const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Hello' },
  expiresAt: Date.now() + 24 * 3_600_000,
  attempt: 1,
} as const;

const TIME = '2026-01-23T18:10:02.574Z';
const answer = (status: string, over: object = {}) => ({
  data: { record_type: 'message', to: [{ phone_number: '+15551230001', status }], errors: [], ...over },
});

lookupSuite({
  provider: telnyx,
  startStandIn: startTelnyxStandIn,
  account: {
    publicConfig: { from: '+15005550006', publicKey: Buffer.alloc(32, 7).toString('base64') },
    secretConfig: { apiKey: 'KEY0180C1DF_canary' },
  },
  message,
  path: /^\/v2\/messages\/[^/]+$/,
  request: (received, id) => {
    expect(received.path).toBe(`/v2/messages/${id}`);
    expect(received.headers).toMatchObject({
      authorization: 'Bearer KEY0180C1DF_canary',
      accept: 'application/json',
    });
    expect(received.body).toBe('');
  },
  unknownId: '834f3d53-8a3c-4aa0-a733-7f2d682a72df',
  answers: [
    ...['queued', 'sending'].map((status) => ({ body: answer(status), says: [{ providerStatus: status }] })),
    { body: answer('sent'), says: [{ providerStatus: 'sent', state: 'sent' }] },
    {
      body: answer('delivery_unconfirmed'),
      says: [{ providerStatus: 'delivery_unconfirmed', state: 'sent' }],
    },
    {
      body: answer('delivered', { completed_at: TIME }),
      says: [{ providerStatus: 'delivered', state: 'delivered', at: Date.parse(TIME) }],
    },
    {
      body: { data: { to: [{ status: 'delivered', updated_at: TIME }], completed_at: null } },
      says: [{ providerStatus: 'delivered', state: 'delivered', at: Date.parse(TIME) }],
    },
    {
      body: answer('delivery_failed', { errors: [{ code: '40008', title: 'Undeliverable' }] }),
      says: [
        {
          providerStatus: 'delivery_failed',
          state: 'undelivered',
          failure: { class: 'recipient_unavailable', code: 'undeliverable', providerCode: '40008' },
        },
      ],
    },
    {
      body: answer('sending_failed'),
      says: [
        {
          providerStatus: 'sending_failed',
          state: 'undelivered',
          failure: { class: 'unknown', code: 'undelivered' },
        },
      ],
    },
  ],
  errorBody: (detail) => ({ errors: [{ code: '10015', title: 'Bad Request', detail }] }),
});
