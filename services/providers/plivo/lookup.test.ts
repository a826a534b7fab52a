import { expect } from 'vitest';
import { lookupSuite } from '#test/suites/lookup-conformance.ts';
import plivo from './provider.ts';
import { startPlivoStandIn } from './stand-in.ts';

const AUTH_ID = 'MAXXXXXXXXXXXXXXXXXX';
const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Hello' },
  expiresAt: Date.now() + 24 * 3_600_000,
  attempt: 1,
} as const;

lookupSuite({
  provider: plivo,
  startStandIn: startPlivoStandIn,
  account: {
    publicConfig: { authId: AUTH_ID, from: '+15005550006' },
    secretConfig: { authToken: 'canary-auth-token-1' },
  },
  message,
  path: /^\/v1\/Account\/\w+\/Message\/[^/]+\/$/,
  request: (received, uuid) => {
    expect(received.path).toBe(`/v1/Account/${AUTH_ID}/Message/${uuid}/`);
    expect(received.headers).toMatchObject({
      authorization: `Basic ${btoa(`${AUTH_ID}:canary-auth-token-1`)}`,
      accept: 'application/json',
    });
    expect(received.body).toBe('');
  },
  unknownId: '2a340179-e8a9-4b1d-ae2c-9f346e7b6d7d',
  answers: [
    { body: { message_state: 'queued', error_code: null }, says: [{ providerStatus: 'queued' }] },
    { body: { message_state: 'sent' }, says: [{ providerStatus: 'sent', state: 'sent' }] },
    {
      body: { message_state: 'delivered', error_code: '000', units: 1 },
      says: [{ providerStatus: 'delivered', state: 'delivered' }],
    },
    ...(['undelivered', 'failed', 'rejected'] as const).map((status) => ({
      body: { message_state: status, error_code: '50' },
      says: [
        {
          providerStatus: status,
          state: 'undelivered' as const,
          failure: { class: 'invalid_recipient' as const, code: 'invalid_number', providerCode: '50' },
        },
      ],
    })),
    {
      body: { message_state: 'failed', error_code: null },
      says: [
        {
          providerStatus: 'failed',
          state: 'undelivered',
          failure: { class: 'unknown', code: 'undelivered' },
        },
      ],
    },
  ],
  errorBody: (error) => ({ api_id: '97ceeb52-58b6-11e1-86da-77300b68f8bb', error }),
});
