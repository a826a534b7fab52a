import { expect } from 'vitest';
import { lookupSuite } from '#test/suites/lookup-conformance.ts';
import mailgun from './provider.ts';
import { startMailgunStandIn } from './stand-in.ts';

const UNKNOWN = '20260101.1@mg.acme.example';
const AT = 1_767_225_600;
const event = (name: string, over: object = {}) => ({
  event: name,
  id: 'x',
  timestamp: AT,
  message: { headers: { 'message-id': UNKNOWN } },
  ...over,
});
const at = AT * 1_000;

lookupSuite({
  provider: mailgun,
  startStandIn: startMailgunStandIn,
  account: {
    publicConfig: { domain: 'mg.acme.example', from: 'news@acme.example' },
    secretConfig: { apiKey: 'canary-key-1', webhookSigningKey: 'canary-signing-key-1' },
  },
  message: {
    channel: 'email',
    id: '7f3b2a34-1111-4222-8333-444455556666',
    to: 'ada@example.com',
    content: { from: { address: 'news@acme.example' }, subject: 'Hello', text: 'Hello' },
    expiresAt: Date.now() + 86_400_000,
    attempt: 1,
  },
  path: /^\/v3\/mg\.acme\.example\/events\?message-id=[^&#/]+&ascending=no&limit=25$/,
  request: (received, id) => {
    const query = new URLSearchParams(received.path.split('?')[1]);
    expect(Object.fromEntries(query)).toEqual({ 'message-id': id, ascending: 'no', limit: '25' });
    expect(received.headers).toMatchObject({
      authorization: `Basic ${btoa('api:canary-key-1')}`,
      accept: 'application/json',
    });
  },
  unknownId: UNKNOWN,
  answers: [
    {
      body: { items: [event('accepted')] },
      says: [{ at, providerStatus: 'accepted', state: 'sent' }],
    },
    {
      body: { items: [event('opened'), event('delivered')] },
      says: [
        { at, providerStatus: 'opened', engagement: 'opened' },
        { at, providerStatus: 'delivered', state: 'delivered' },
      ],
    },
    {
      body: { items: [event('failed', { severity: 'temporary' })] },
      says: [{ at, providerStatus: 'failed:temporary' }],
    },
    {
      body: {
        items: [
          event('failed', {
            severity: 'permanent',
            reason: 'bounce',
            'delivery-status': { code: 550, 'enhanced-code': '5.1.1' },
          }),
        ],
      },
      says: [
        {
          at,
          providerStatus: 'failed:permanent',
          state: 'undelivered',
          failure: { class: 'invalid_recipient', code: 'unknown_recipient', providerCode: '550' },
        },
      ],
    },
    {
      body: { items: [event('delivered', { message: { headers: { 'message-id': `<${UNKNOWN}>` } } })] },
      says: [{ at, providerStatus: 'delivered', state: 'delivered' }],
    },
  ],
  absences: [
    { items: [] },
    { items: [event('delivered', { message: { headers: { 'message-id': 'other@mg.acme.example' } } })] },
  ],
  errorBody: (message) => ({ message }),
});
