import { afterAll, beforeAll, expect, test } from 'vitest';
import { statusReport } from '#providers/twilio/stand-in.ts';
import { call } from '#test/support/http-call.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';

let stack: ServiceStack;
let tenant: StackTenant;

beforeAll(async () => {
  // Workers look by themselves once a minute: what is applied within seconds, the api has woken one for.
  stack = await startServiceStack({ worker: { SWEEP_INTERVAL_MS: '60000' } });
  tenant = await stack.tenant(['sms']);
});
afterAll(() => stack?.[Symbol.asyncDispose]());

type Sent = { readonly id: string; readonly sid: string; readonly url: string; readonly authToken: string };

/** A message that Twilio has taken, and where and with which secret it is to report. */
async function sent(): Promise<Sent> {
  const body = { channel: 'sms', to: '+14155550100', body: 'Hello' };
  const answer = await call(stack.apis[0].origin, 'POST', '/v1/messages', { key: tenant.serviceKey, body });
  const { id } = answer.body as { id: string };
  await expect.poll(() => recordOf(id)).toMatchObject({ status: 'sent', finality: 'pending' });
  const taken = stack.twilio.received.findLast((one) => one.body.includes(id));
  const url = new URLSearchParams(taken?.body).get('StatusCallback') ?? '';
  const pair = Buffer.from(taken?.headers['authorization']?.slice(6) ?? '', 'base64').toString();
  const { providerMessageId } = await recordOf(id);
  return { id, sid: String(providerMessageId), url, authToken: pair.slice(pair.indexOf(':') + 1) };
}

async function recordOf(id: string): Promise<Record<string, unknown>> {
  const { body } = await call(stack.apis[1].origin, 'GET', `/v1/messages/${id}`, { key: tenant.serviceKey });
  return body as Record<string, unknown>;
}

async function report(one: Sent, state: string, over: { url?: string; body?: string } = {}) {
  const { url, headers, body } = statusReport({ ...one, state });
  const answer = await fetch(over.url ?? url, { method: 'POST', headers, body: over.body ?? body });
  return { status: answer.status, text: await answer.text() };
}

async function providerOf(): Promise<Record<string, unknown>> {
  const { token, slug } = tenant;
  const { body } = await call(stack.apis[0].origin, 'GET', '/v1/admin/providers', {
    token,
    slug,
  });
  return (body as { items: Record<string, unknown>[] }).items[0] ?? {};
}

test('a tenant sees that its message was delivered, and when, as soon as the report has come', async () => {
  const one = await sent();
  expect(one.url).toBe(`${String((await providerOf())['receiptUrl'])}?mid=${one.id}`);
  // What Twilio takes for an empty answer in its own language.
  expect(await report(one, 'sent')).toEqual({ status: 200, text: '<Response/>' });
  expect(await report(one, 'delivered')).toEqual({ status: 200, text: '<Response/>' });
  await expect
    .poll(() => recordOf(one.id))
    .toMatchObject({
      status: 'delivered',
      finality: 'final',
      deliveredAt: expect.any(String),
      completedAt: expect.any(String),
    });
  const { body } = await call(stack.apis[1].origin, 'GET', `/v1/messages/${one.id}/events`, {
    key: tenant.serviceKey,
  });
  const { items } = body as { items: { type: string; source: string }[] };
  expect(items.find(({ source }) => source === 'receipt')).toMatchObject({
    type: 'message.delivered',
    applied: true,
    verified: true,
    providerStatus: 'delivered',
  });
  expect(items.at(-1)).toMatchObject({ type: 'message.queued', verified: null, providerStatus: null });
});

test('a report with one byte changed is taken in, and not believed', async () => {
  const one = await sent();
  const { body } = statusReport({ ...one, state: 'delivered' });
  expect((await report(one, 'delivered', { body: body.replace('delivered', 'delivereD') })).status).toBe(200);
  expect((await report(one, 'delivered', { url: one.url.replace('mid=', 'mid=0') })).status).toBe(200);
  const left = async () => Number((await stack.admin`select count(*) as n from receipt_calls`)[0]?.['n']);
  await expect.poll(left).toBe(0);
  expect(await recordOf(one.id)).toMatchObject({ status: 'sent', finality: 'pending' });
});

test('a report at another address is nobody’s', async () => {
  const one = await sent();
  const [address] = one.url.split('?');
  for (const url of [
    `${address}A`,
    String(address).replace(/[0-9a-f]{8}-/, '00000000-'),
    `${address}/more`,
  ]) {
    expect((await report(one, 'delivered', { url })).status).toBe(404);
  }
  expect(await recordOf(one.id)).toMatchObject({ status: 'sent' });
});
