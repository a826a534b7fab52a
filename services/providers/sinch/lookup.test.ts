import { expect, test } from 'vitest';
import { lookupSuite } from '#test/suites/lookup-conformance.ts';
import type { HttpRequest } from '#core/domain/sending/http-exchange.ts';
import type { ProviderContext } from '../provider.ts';
import { sinchLookup } from './lookup.ts';
import sinch from './provider.ts';
import { startSinchStandIn } from './stand-in.ts';

const PLAN = 'jd63jf88477ll123ab4567cd89012ef3';
const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Hello' },
  expiresAt: Date.now() + 24 * 3_600_000,
  attempt: 1,
} as const;
const report = (...statuses: readonly object[]) => ({ type: 'delivery_report_sms', batch_id: 'x', statuses });

lookupSuite({
  provider: sinch,
  startStandIn: startSinchStandIn,
  account: {
    publicConfig: { servicePlanId: PLAN, region: 'eu', from: '+15005550006' },
    secretConfig: { apiToken: 'canary-api-token', webhookSecret: 'canary-webhook-secret' },
  },
  message,
  path: /^\/xms\/v1\/\w+\/batches\/[^/]+\/delivery_report\?type=summary$/,
  request: (received, id) => {
    expect(received.path).toBe(`/xms/v1/${PLAN}/batches/${id}/delivery_report?type=summary`);
    expect(received.headers).toMatchObject({
      authorization: 'Bearer canary-api-token',
      accept: 'application/json',
    });
    expect(received.body).toBe('');
  },
  unknownId: '01FC66621XXXXX119Z8PMV1QPQ',
  answers: [
    { body: report(), says: [] },
    { body: report({ status: 'Queued', code: 400, count: 1 }), says: [{ providerStatus: 'Queued' }] },
    ...['Dispatched', 'Unknown'].map((status) => ({
      body: report({ status, count: 1 }),
      says: [{ providerStatus: status, state: 'sent' as const }],
    })),
    {
      body: report({ status: 'Delivered', code: 0, count: 1 }),
      says: [{ providerStatus: 'Delivered', state: 'delivered' }],
    },
    {
      body: report({ status: 'Failed', code: 402, count: 1 }),
      says: [
        {
          providerStatus: 'Failed',
          state: 'undelivered',
          failure: { class: 'recipient_unavailable', code: 'unroutable', providerCode: '402' },
        },
      ],
    },
  ],
  errorBody: (text) => ({ code: 'syntax_invalid_parameter_format', text }),
});

/** Looks up by our reference; each request gets the next of the given responses. */
async function askByReference(...answers: readonly (readonly [status: number, body: unknown])[]) {
  const requests: HttpRequest[] = [];
  const rest = [...answers];
  const context = {
    origin: (origin: string) => origin,
    epochMs: () => Date.UTC(2026, 4, 5),
    async http(request: HttpRequest) {
      requests.push(request);
      const [status = 500, body] = rest.shift() ?? [];
      return { kind: 'response', status, headers: {}, text: JSON.stringify(body ?? '') };
    },
  } as unknown as ProviderContext;
  const account = { config: { servicePlanId: PLAN, region: 'eu' }, secrets: { apiToken: 'x' } } as const;
  const question = { messageId: message.id, providerMessageId: null };
  return { answer: await sinchLookup.ask(question, account, context), urls: requests.map(({ url }) => url) };
}
const BATCH = { id: '01FC', client_reference: message.id };

test("a batch is looked up by our reference, over Sinch's whole retention period", async () => {
  const { answer, urls } = await askByReference([200, { batches: [] }]);
  expect(answer).toEqual({ kind: 'not_found' });
  expect(urls).toEqual([
    `https://eu.sms.api.sinch.com/xms/v1/${PLAN}/batches?client_reference=${message.id}&start_date=2026-04-21T00%3A00%3A00.000Z&page_size=2`,
  ]);
});

test('batches with another or no reference are ignored', async () => {
  const { answer } = await askByReference([
    200,
    { batches: [{ ...BATCH, client_reference: 'other' }, { id: 'y' }] },
  ]);
  expect(answer).toEqual({ kind: 'not_found' });
});

test.each([
  [200, report({ status: 'Delivered', code: 0 }), [{ providerStatus: 'Delivered', state: 'delivered' }]],
  [404, '', []],
  [500, { text: 'Down' }, []],
])('a batch counts as found, even if its delivery report answers %i', async (status, body, reports) => {
  const { answer } = await askByReference([200, { batches: [BATCH] }], [status, body]);
  expect(answer).toEqual({ kind: 'found', providerMessageId: '01FC', reports });
});

test('an error or unreadable answer is unanswered, not not_found', async () => {
  expect((await askByReference([503, {}])).answer).toMatchObject({ kind: 'unanswered' });
  expect((await askByReference([200, { items: [] }])).answer).toMatchObject({ kind: 'unanswered' });
});
