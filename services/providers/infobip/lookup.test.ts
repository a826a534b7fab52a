import { describe, expect, test } from 'vitest';
import type { ProviderContext } from '../provider.ts';
import { lookupSuite } from '#test/suites/lookup-conformance.ts';
import { lookupInLogs } from './lookup.ts';
import definitions from './provider.ts';
import { startInfobipStandIn } from './stand-in.ts';

const [sms, whatsapp] = definitions;
const account = {
  publicConfig: { baseUrl: 'xyz123.api.infobip.com', from: '+447860099299' },
  secretConfig: { apiKey: 'canary0123456789abcdef-api-key' },
};
const ID = '7f3b2a34-1111-4222-8333-444455556666';
const UNKNOWN = '7f3b2a34-1111-4222-8333-444455559999';
const message = { id: ID, to: '+15551230001', expiresAt: Date.now() + 86_400_000, attempt: 1 } as const;
const line = (status: object, over: object = {}) => ({ messageId: UNKNOWN, status, ...over });
const ACCEPTED = { groupId: 1, groupName: 'PENDING', id: 26, name: 'PENDING_ACCEPTED' };
const OPERATOR = { groupId: 3, groupName: 'DELIVERED', id: 2, name: 'DELIVERED_TO_OPERATOR' };
const HANDSET = { groupId: 3, groupName: 'DELIVERED', id: 5, name: 'DELIVERED_TO_HANDSET' };
const EXPIRED = { groupId: 4, groupName: 'EXPIRED', id: 15, name: 'EXPIRED_EXPIRED' };
const DUPLICATE = { groupId: 5, groupName: 'REJECTED', id: 23, name: 'REJECTED_DUPLICATE_MESSAGE_ID' };
const NO_CREDIT = { groupId: 5, groupName: 'REJECTED', id: 12, name: 'REJECTED_NOT_ENOUGH_CREDITS' };

describe.each([
  { provider: sms, logs: '/sms/3/logs', message: { ...message, channel: 'sms', content: { body: 'Hello' } } },
  {
    provider: whatsapp,
    logs: '/whatsapp/2/logs',
    message: { ...message, channel: 'whatsapp', content: { kind: 'text', body: 'Hello' } },
  },
] as const)('$provider.id', ({ provider, logs, message }) => {
  lookupSuite({
    provider,
    startStandIn: startInfobipStandIn,
    account,
    message,
    path: /^\/(?:sms\/3|whatsapp\/2)\/logs\?messageId=[^&#/]+$/,
    request: (received, id) => {
      expect(received.path).toBe(`${logs}?messageId=${id}`);
      expect(received.headers).toMatchObject({
        authorization: `App ${account.secretConfig.apiKey}`,
        accept: 'application/json',
      });
    },
    unknownId: UNKNOWN,
    answers: [
      {
        body: { results: [line(ACCEPTED)] },
        says: [{ eventId: `${UNKNOWN}:26:0`, providerStatus: 'PENDING_ACCEPTED' }],
      },
      {
        body: { results: [line(OPERATOR)] },
        says: [{ eventId: `${UNKNOWN}:2:0`, providerStatus: 'DELIVERED_TO_OPERATOR', state: 'sent' }],
      },
      {
        body: { results: [line(DUPLICATE), line(HANDSET, { doneAt: '2026-05-03T14:26:57.000+0000' })] },
        says: [
          {
            eventId: `${UNKNOWN}:5:0`,
            providerStatus: 'DELIVERED_TO_HANDSET',
            state: 'delivered',
            at: Date.UTC(2026, 4, 3, 14, 26, 57),
          },
        ],
      },
      {
        body: { results: [line(EXPIRED)] },
        says: [
          {
            eventId: `${UNKNOWN}:15:0`,
            providerStatus: 'EXPIRED_EXPIRED',
            state: 'undelivered',
            failure: {
              class: 'recipient_unavailable',
              code: 'validity_expired',
              providerCode: '15',
              providerMessage: 'EXPIRED_EXPIRED',
            },
          },
        ],
      },
    ],
    absences: [
      { results: [] },
      { results: [line(DUPLICATE)] },
      { results: [{ ...line(HANDSET), messageId: ID }] },
    ],
    errorBody: (text) => ({ errorCode: 'E400', description: text, violations: [] }),
  });
});

/** Looks up a message whose call got no answer. */
function askByReference(results: readonly object[]) {
  const text = JSON.stringify({ results });
  const context = {
    origin: (origin: string) => origin,
    http: async () => ({ kind: 'response', status: 200, headers: {}, text }),
    epochMs: Date.now,
  } as unknown as ProviderContext;
  const sender = { config: account.publicConfig, secrets: account.secretConfig };
  return lookupInLogs('/sms/3/logs').ask({ messageId: ID, providerMessageId: null }, sender, context);
}

test('a rejection under our reference is not_found, since the next id may have been used', async () => {
  expect(await askByReference([{ messageId: ID, status: NO_CREDIT }])).toEqual({ kind: 'not_found' });
  expect(await askByReference([{ messageId: ID, status: HANDSET }])).toMatchObject({ kind: 'found' });
});

test('an unreadable log line is unanswered, not not_found', async () => {
  expect(await askByReference([{ messageId: ID }])).toMatchObject({ kind: 'unanswered' });
});
