import { expect } from 'vitest';
import { lookupSuite } from '#test/suites/lookup-conformance.ts';
import messagebird from './provider.ts';
import { startMessagebirdStandIn } from './stand-in.ts';

const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Hello' },
  expiresAt: Date.now() + 24 * 3_600_000,
  attempt: 1,
} as const;

const answer = (recipient: object) => ({ id: 'x', recipients: { totalCount: 1, items: [recipient] } });

lookupSuite({
  provider: messagebird,
  startStandIn: startMessagebirdStandIn,
  account: {
    publicConfig: { originator: '+15005550006' },
    secretConfig: { accessKey: 'live_canary_access_key', signingKey: 'canary-signing-key' },
  },
  message,
  path: /^\/messages\/[^/]+$/,
  request: (received, id) => {
    expect(received.path).toBe(`/messages/${id}`);
    expect(received.headers).toMatchObject({
      authorization: 'AccessKey live_canary_access_key',
      accept: 'application/json',
    });
    expect(received.body).toBe('');
  },
  unknownId: 'e8077d803532c0b5937c639b60216938',
  answers: [
    { body: answer({ status: 'scheduled' }), says: [{ providerStatus: 'scheduled' }] },
    ...(['sent', 'buffered'] as const).map((status) => ({
      body: answer({ status, statusDatetime: null }),
      says: [{ providerStatus: status, state: 'sent' as const }],
    })),
    {
      body: answer({
        status: 'delivered',
        statusDatetime: '2026-05-03T14:26:57+00:00',
        statusErrorCode: null,
      }),
      says: [{ providerStatus: 'delivered', state: 'delivered', at: Date.UTC(2026, 4, 3, 14, 26, 57) }],
    },
    {
      body: answer({ status: 'delivery_failed', statusErrorCode: 103, statusReason: 'opted out' }),
      says: [
        {
          providerStatus: 'delivery_failed',
          state: 'undelivered',
          failure: { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '103' },
        },
      ],
    },
    {
      body: answer({ status: 'expired', statusErrorCode: null, statusReason: null }),
      says: [
        {
          providerStatus: 'expired',
          state: 'undelivered',
          failure: { class: 'recipient_unavailable', code: 'message_expired' },
        },
      ],
    },
  ],
  errorBody: (description) => ({ errors: [{ code: 21, description, parameter: null }] }),
});
