import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';
import {
  startWebhookReceiver,
  type WebhookCall,
  type WebhookReceiver,
} from '#test/support/webhook-receiver.ts';

const DEADLINE_MS = 5_000;
/** A lease, a poll, and an allowance. */
const AFTER_LEASE = { timeout: 4 * DEADLINE_MS + 50_000, interval: 100 };

let stack: ServiceStack;
let receiver: WebhookReceiver;

beforeAll(async () => {
  receiver = await startWebhookReceiver();
  const here = { EGRESS_ALLOW_CIDRS: '127.0.0.0/8', WEBHOOK_ALLOW_HTTP: 'true' };
  stack = await startServiceStack({
    api: here,
    worker: { ...here, WEBHOOK_DEADLINE_MS: String(DEADLINE_MS) },
  });
});
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
});

const send = (tenant: StackTenant, n: number) =>
  Promise.all(
    Array.from({ length: n }, async () => {
      const body = { channel: 'sms', to: '+14155550100', body: 'Hello' };
      const answer = await call(stack.apis[0].origin, 'POST', '/v1/messages', {
        key: tenant.serviceKey,
        body,
      });
      expect(answer.status).toBe(202);
      return answer.body.id as string;
    }),
  );

async function endpointOf(tenant: StackTenant, path: string, settings: Record<string, unknown> = {}) {
  const { status, body } = await call(stack.apis[0].origin, 'POST', '/v1/admin/webhook-endpoints', {
    token: tenant.token,
    slug: tenant.slug,
    body: { url: `${receiver.origin}${path}`, eventTypes: ['message.*'], ...settings },
  });
  expect({ status, body }).toMatchObject({ status: 201 });
  return body as { id: string; secret: string };
}

function isGenuine({ headers, body }: WebhookCall, secret: string): boolean {
  const text = [headers['webhook-id'], headers['webhook-timestamp'], body].join('.');
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = `v1,${createHmac('sha256', key).update(text).digest('base64')}`;
  return String(headers['webhook-signature']).split(' ').includes(expected);
}

test('an endpoint created through the API receives message events signed with its secret', async () => {
  const tenant = await stack.tenant();
  const { id, secret } = await endpointOf(tenant, '/made');
  const [messageId] = await send(tenant, 1);
  await expect.poll(() => receiver.at('/made').map(({ type }) => type)).toContain('message.sent');
  const calls = receiver.at('/made');
  expect(calls.every((one) => isGenuine(one, secret))).toBe(true);
  expect(calls.every(({ data }) => data.messageId === messageId)).toBe(true);
  const tried = await call(stack.apis[1].origin, 'POST', `/v1/admin/webhook-endpoints/${id}/test`, {
    token: tenant.token,
    slug: tenant.slug,
  });
  expect([tried.status, tried.body]).toMatchObject([200, { succeeded: true, response: { status: 200 } }]);
  const [ping] = receiver.at('/made').filter(({ type }) => type === 'test.ping');
  expect(ping !== undefined && isGenuine(ping, secret)).toBe(true);
});

test('killed workers with webhook deliveries in flight lose no event', async () => {
  const tenant = await stack.tenant();
  await endpointOf(tenant, '/crash', { eventTypes: ['message.queued'] });
  const isHanging = { now: true };
  receiver.answer('/crash', () => (isHanging.now ? 'hang' : { status: 200 }));
  const sent = await send(tenant, 150);
  await expect.poll(() => receiver.at('/crash').length, { interval: 20 }).toBeGreaterThan(0);
  await Promise.all(stack.workers.map(({ kill }) => kill()));
  isHanging.now = false;
  const cut = receiver.at('/crash').length;
  await stack.workers[0].start();
  const taken = () => receiver.at('/crash').filter(({ status }) => status === 200);
  await expect
    .poll(() => new Set(taken().map(({ data }) => data.messageId)).size, AFTER_LEASE)
    .toBe(sent.length);
  const numbers = [...new Set(taken().map(({ data }) => data.seq))].toSorted((a, b) => a - b);
  expect(numbers).toEqual(sent.map((_, i) => i + 1));
  expect(cut).toBeGreaterThan(0);
  // Every event has one number and every number one event, however often they were delivered.
  expect(new Set(receiver.at('/crash').map(({ id, data }) => `${id} ${data.seq}`)).size).toBe(sent.length);
});
