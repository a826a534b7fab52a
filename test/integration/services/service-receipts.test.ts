import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { statusReport } from '#providers/twilio/stand-in-reports.ts';
import { call } from '#test/support/http-call.ts';
import {
  startTraceCollector,
  type CollectedSpan,
  type TraceCollector,
} from '#test/support/trace-collector.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';
import {
  messageRecord,
  reportAsTwilio,
  takenByTwilio,
  type TakenByTwilio,
} from '#test/support/twilio-receipts.ts';

let stack: ServiceStack;
let traces: TraceCollector;
let tenant: StackTenant;

beforeAll(async () => {
  traces = await startTraceCollector();
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: traces.origin,
    OTEL_TRACES_SAMPLE_RATIO: '1',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  };
  // Workers poll once a minute here, so a receipt that is applied within seconds came through a wake-up of the api.
  stack = await startServiceStack({
    api: environment,
    worker: { ...environment, SWEEP_INTERVAL_MS: '60000' },
  });
  tenant = await stack.tenant(['sms']);
});
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await traces?.[Symbol.asyncDispose]();
});

async function sent(headers: Record<string, string> = {}): Promise<TakenByTwilio> {
  const body = { channel: 'sms', to: '+14155550100', body: 'Hello' };
  const key = tenant.serviceKey;
  const answer = await call(stack.apis[0].origin, 'POST', '/v1/messages', { key, body, headers });
  return takenByTwilio(stack, key, (answer.body as { id: string }).id);
}

const recordOf = (id: string) => messageRecord(stack, tenant.serviceKey, id);
const report = reportAsTwilio;

async function providerOf(): Promise<Record<string, unknown>> {
  const { token, slug } = tenant;
  const { body } = await call(stack.apis[0].origin, 'GET', '/v1/admin/providers', {
    token,
    slug,
  });
  return (body as { items: Record<string, unknown>[] }).items[0] ?? {};
}

test('a delivery report sets its message to delivered, with deliveredAt and an event', async () => {
  const one = await sent();
  expect(one.url).toBe(`${String((await providerOf())['receiptUrl'])}?mid=${one.id}`);
  // TwiML for an empty answer.
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
  // The other report may be applied after this one.
  expect(items.find(({ type }) => type === 'message.delivered')).toMatchObject({
    source: 'receipt',
    applied: true,
    verified: true,
    providerStatus: 'delivered',
  });
  expect(items.at(-1)).toMatchObject({ type: 'message.queued', verified: null, providerStatus: null });
});

test('a report with an invalid signature is answered with 200 but does not change the message', async () => {
  const one = await sent();
  const { body } = statusReport({ ...one, state: 'delivered' });
  expect((await report(one, 'delivered', { body: body.replace('delivered', 'delivereD') })).status).toBe(200);
  expect((await report(one, 'delivered', { url: one.url.replace('mid=', 'mid=0') })).status).toBe(200);
  // They are kept for a day, in case the secret of the account is replaced, but wait for that.
  const kept = () => stack.admin`select refused from receipt_calls`;
  await expect.poll(kept).toEqual([{ refused: true }, { refused: true }]);
  expect(await recordOf(one.id)).toMatchObject({ status: 'sent', finality: 'pending' });
});

test('a report to a wrong receipt URL is answered with 404 and changes nothing', async () => {
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

const tokenOf = ({ url }: TakenByTwilio): string => /\d\.([\w-]{32})/.exec(url)?.[1] ?? '';

test('one trace spans a receipt call and its processing, and links to the trace of the message', async () => {
  const traceId = randomBytes(16).toString('hex');
  const one = await sent({ traceparent: `00-${traceId}-${randomBytes(8).toString('hex')}-01` });
  await report(one, 'delivered');
  await expect.poll(() => recordOf(one.id)).toMatchObject({ status: 'delivered' });
  const applied = (): CollectedSpan | undefined =>
    traces
      .spans()
      .find(
        ({ name, links }) => name === 'process receipt' && links?.some((link) => link.traceId === traceId),
      );
  await expect.poll(applied).toMatchObject({ service: 'despatch-worker', kind: 5 });
  const called = (): CollectedSpan | undefined =>
    traces.spans().find(({ spanId }) => spanId === applied()?.parentSpanId);
  await expect.poll(called).toMatchObject({
    service: 'despatch-api',
    kind: 2,
    name: 'POST /v1/receipts/:providerId/:token',
    traceId: applied()?.traceId,
  });
  expect(applied()?.traceId).not.toBe(traceId);
  expect(traces.bodies().filter((body) => body.includes('/v1/receipts/'))).not.toEqual([]);
});

test('log lines of a receipt name account and tenant; neither logs nor spans have its token', async () => {
  const one = await sent();
  await report(one, 'delivered');
  await report(one, 'delivered', { body: 'forged' });
  const { id: providerId } = await providerOf();
  const lines = async (): Promise<string[]> => {
    const logs = await Promise.all([...stack.apis, ...stack.workers].map(({ log }) => log()));
    return logs.join('').trimEnd().split('\n');
  };
  await expect
    .poll(async () =>
      (await lines())
        .filter((line) => line.includes('/v1/receipts/'))
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    )
    .toContainEqual(
      expect.objectContaining({ event: 'request', providerId, tenantId: tenant.id, statusCode: 200 }),
    );
  await expect.poll(async () => (await lines()).join('')).toContain('Receipt refused');
  expect([...(await lines()), ...traces.bodies()].filter((text) => text.includes(tokenOf(one)))).toEqual([]);
});
