import { createHmac, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { HttpResult } from '#core/domain/sending/http-exchange.ts';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { webhookStore } from '#core/store/webhooks/webhook-store.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import { startWebhookReceiver, type WebhookReceiver } from '#test/support/webhook-receiver.ts';
import type { Worker } from '../../../services/worker/build-worker.ts';
import { createEndpointSecrets } from '../../../services/worker/webhooks/endpoint-secrets.ts';

const SECRET = `whsec_${randomBytes(32).toString('base64')}`;
/** Long enough for every receiver that answers, even on a busy machine. */
const DEADLINE_MS = 5_000;
/** Longer than any test. */
const LEASE_MS = 300_000;

let b: Awaited<ReturnType<typeof setupWorkers>>;
let receiver: WebhookReceiver;
let worker: Worker;
const open = new AsyncDisposableStack();
let paths = 0;
/** The results of calls that reach no receiver, by path. */
const unheard = new Map<string, Promise<HttpResult>>();

beforeAll(async () => {
  receiver = open.use(await startWebhookReceiver());
  const guard = createEgressGuard({ allowCidrs: ['127.0.0.0/8'], ports: [443], resolveHost: async () => [] });
  const http = open.use(createHttpClient({ totalDeadlineMs: DEADLINE_MS, guard }));
  b = open.use(
    await setupWorkers(
      {},
      {
        webhooksOn: ({ worker: sql, store }) => ({
          store: webhookStore(sql, (work) => work, createIdLoader(store.messageIdKey)),
          secrets: createEndpointSecrets({
            decrypter: { decrypt: async () => Buffer.from(SECRET) },
            entriesMax: 100,
            ttlMs: 600_000,
          }),
          http: (request) => unheard.get(new URL(request.url).pathname) ?? http(request),
          allowHttp: true,
          settings: { inFlightMax: 64, deadlineMs: DEADLINE_MS, leaseMs: LEASE_MS },
        }),
      },
    ),
  );
  worker = b.startWorker();
});
afterAll(() => open.disposeAsync());

async function tenantOf(): Promise<SeededTenant & { accountId: string }> {
  const tenant = await seedTenant(b.admin, { inFlightMax: 50 });
  const config = { accountSid: `AC${'0'.repeat(32)}`, from: '+15005550006' };
  return {
    ...tenant,
    accountId: await seedAccount(b.admin, tenant.tenantId, { provider: 'twilio', config }),
  };
}

/** Inserts an endpoint with a path of its own. */
async function endpointOf({ tenantId }: SeededTenant, settings: Record<string, unknown> = {}) {
  const path = `/hook-${++paths}`;
  const row = {
    tenant_id: tenantId,
    url: `${receiver.origin}${path}`,
    event_types: ['message.*'],
    secret: 'vault:v1:secret',
    matched_to: 0,
    ...settings,
  };
  const [made] = await b.admin<{ id: string }[]>`
    insert into despatch.webhook_endpoints ${b.admin(row)} returning id`;
  return { id: made?.id ?? '', path };
}
const healthOf = async (id: string) =>
  (
    await b.admin`select status, status_reason, failures from despatch.webhook_endpoints where id = ${id}`
  )[0] ?? {};
const dueOf = async (id: string) =>
  (
    await b.admin<
      { n: number }[]
    >`select count(*) as n from despatch.due_deliveries where endpoint_id = ${id}`
  )[0]?.n;
const attemptsOf = (id: string) =>
  b.admin<
    {
      seq: number;
      attempt: number;
      status: number | null;
      error: string | null;
      succeeded: boolean;
      duration_ms: number;
    }[]
  >`
    select seq, attempt, status, error, succeeded, duration_ms from despatch.delivery_attempts
    where endpoint_id = ${id} order by seq, attempt`;
const send = (n: number, of: SeededTenant & { accountId: string }) =>
  b.send(n, { account_id: of.accountId }, { of });
const seqsAt = (path: string): number[] => receiver.at(path).map(({ data }) => data.seq);
const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1);
const sorted = (numbers: readonly number[]): number[] => numbers.toSorted((a, c) => a - c);

describe('webhook delivery', () => {
  test('sends each event of a message once, signed and numbered without gaps', async () => {
    const tenant = await tenantOf();
    const { id, path } = await endpointOf(tenant);
    const sent = await send(10, tenant);
    await expect.poll(() => receiver.at(path).filter(({ type }) => type === 'message.sent').length).toBe(10);
    await expect.poll(() => dueOf(id)).toBe(0);
    const calls = receiver.at(path);
    expect(sorted(seqsAt(path))).toEqual(upTo(calls.length));
    expect(new Set(calls.map((call) => call.id)).size).toBe(calls.length);
    expect(calls.filter(({ type }) => type === 'message.queued')).toHaveLength(sent.length);
    for (const { headers, body, id: eventId } of calls) {
      const timestamp = String(headers['webhook-timestamp']);
      const key = Buffer.from(SECRET.slice('whsec_'.length), 'base64');
      const digest = createHmac('sha256', key).update(`${eventId}.${timestamp}.${body}`).digest('base64');
      expect(headers).toMatchObject({
        'webhook-id': eventId,
        'webhook-signature': `v1,${digest}`,
        'content-type': 'application/json',
      });
      expect(Math.abs(Number(timestamp) - Date.now() / 1_000)).toBeLessThan(60);
    }
    expect((await attemptsOf(id)).every(({ attempt, succeeded }) => attempt === 1 && succeeded)).toBe(true);
  });

  test('retries a failed call after some seconds with the same event id and number', async () => {
    const tenant = await tenantOf();
    const { id, path } = await endpointOf(tenant, { event_types: ['message.queued'] });
    receiver.answer(path, () => ({ status: receiver.at(path).length === 0 ? 500 : 200 }));
    await send(1, tenant);
    await expect.poll(() => receiver.at(path).length).toBe(2);
    const [first, second] = receiver.at(path);
    expect([second?.id, second?.data.seq]).toEqual([first?.id, first?.data.seq]);
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(3_900);
    await expect.poll(() => dueOf(id)).toBe(0);
    expect(await attemptsOf(id)).toMatchObject([
      { attempt: 1, status: 500, succeeded: false },
      { attempt: 2, status: 200, succeeded: true },
    ]);
    await expect.poll(() => healthOf(id)).toMatchObject({ status: 'active', failures: 0 });
  });

  test('disables an endpoint that returns 410 and does not call it again', async () => {
    const tenant = await tenantOf();
    const { id, path } = await endpointOf(tenant, { event_types: ['message.queued'] });
    receiver.answer(path, () => ({ status: 410 }));
    await send(1, tenant);
    await expect.poll(() => healthOf(id)).toMatchObject({ status: 'disabled', status_reason: 'gone' });
    await send(3, tenant);
    await expect.poll(() => dueOf(id)).toBeGreaterThan(1);
    expect(receiver.at(path)).toHaveLength(1);
  });

  test('does not follow redirects', async () => {
    const tenant = await tenantOf();
    const { id, path } = await endpointOf(tenant, { event_types: ['message.queued'] });
    receiver.answer(path, () => ({ status: 307, headers: { location: `${receiver.origin}/elsewhere` } }));
    await send(1, tenant);
    await expect.poll(() => attemptsOf(id)).toMatchObject([{ status: 307, succeeded: false }]);
    expect(receiver.at('/elsewhere')).toEqual([]);
  });

  test('ends a call without an answer at the deadline with the error timeout', async () => {
    const tenant = await tenantOf();
    const { id, path } = await endpointOf(tenant, { event_types: ['message.queued'] });
    receiver.answer(path, () => 'hang');
    await send(1, tenant);
    await expect
      .poll(() => attemptsOf(id))
      .toMatchObject([{ status: null, error: 'timeout', succeeded: false }]);
    const [attempt] = await attemptsOf(id);
    expect(attempt?.duration_ms).toBeGreaterThanOrEqual(DEADLINE_MS - 50);
    expect(attempt?.duration_ms).toBeLessThan(3 * DEADLINE_MS);
  });

  test('makes no calls while an endpoint is paused and sends everything after it is resumed', async () => {
    const tenant = await tenantOf();
    const { id, path } = await endpointOf(tenant, { event_types: ['message.queued'], status: 'paused' });
    const other = await endpointOf(tenant, { event_types: ['message.queued'] });
    await send(20, tenant);
    await expect.poll(() => dueOf(id)).toBeGreaterThan(0);
    await expect.poll(() => receiver.at(other.path).length).toBe(20);
    expect(receiver.at(path)).toEqual([]);
    await b.admin`update despatch.webhook_endpoints set status = 'active', version = version + 1 where id = ${id}`;
    worker.notice('endpoint', { tenantId: tenant.tenantId, id });
    await expect.poll(() => receiver.at(path).length).toBe(20);
    expect(sorted(seqsAt(path))).toEqual(upTo(20));
  });
});

test('calls to a paused endpoint stop within seconds, even without a change notice', async () => {
  const tenant = await tenantOf();
  const { id, path } = await endpointOf(tenant, { event_types: ['message.queued'] });
  receiver.answer(path, () => ({ status: 200, afterMs: 400 }));
  await send(600, tenant);
  await expect.poll(() => receiver.at(path).length).toBeGreaterThan(0);
  await b.admin`update despatch.webhook_endpoints set status = 'paused', version = version + 1 where id = ${id}`;
  const isClaimed = async () =>
    (await b.admin`select from despatch.due_deliveries where endpoint_id = ${id} and claim is not null`)
      .length > 0;
  await expect.poll(isClaimed).toBe(false);
  const called = receiver.at(path).length;
  expect(called).toBeLessThan(600);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(receiver.at(path)).toHaveLength(called);
});

test('a dead endpoint delays no other one, becomes failing and receives its events later', async () => {
  const tenant = await tenantOf();
  const dead = await endpointOf(tenant, { event_types: ['message.queued'] });
  const others = await Promise.all(
    upTo(3).map(() => endpointOf(tenant, { event_types: ['message.queued'] })),
  );
  const deadlines = Promise.withResolvers<HttpResult>();
  unheard.set(dead.path, deadlines.promise);
  await send(200, tenant);
  for (const { path } of others) await expect.poll(() => receiver.at(path).length).toBe(200);
  // No call to the endpoint has ended so far.
  expect(await attemptsOf(dead.id)).toEqual([]);
  deadlines.resolve({ kind: 'ambiguous', code: 'timeout' });
  await expect.poll(() => healthOf(dead.id)).toMatchObject({ status: 'failing' });
  unheard.delete(dead.path);
  await expect.poll(() => healthOf(dead.id), { timeout: 60_000 }).toMatchObject({ status: 'active' });
  const taken = () =>
    new Set(
      receiver
        .at(dead.path)
        .filter(({ status }) => status === 200)
        .map(({ id }) => id),
    );
  await expect.poll(() => taken().size, { timeout: 60_000 }).toBeGreaterThanOrEqual(180);
});

test('an ordered endpoint receives the events of each message in order, even after a failure', async () => {
  const tenant = await tenantOf();
  const { path } = await endpointOf(tenant, {
    ordered: true,
    event_types: ['message.queued', 'message.sent'],
  });
  const failed = new Set<string>();
  receiver.answer(path, ({ type, data }) => {
    const { messageId = '' } = data;
    // Fails the first event of three messages, once each.
    const isFirst = type === 'message.queued' && failed.size < 3 && !failed.has(messageId);
    if (isFirst) failed.add(messageId);
    return { status: isFirst ? 503 : 200 };
  });
  await send(6, tenant);
  const taken = () => receiver.at(path).filter(({ status }) => status === 200);
  await expect.poll(() => taken().length, { timeout: 60_000 }).toBe(12);
  for (const some of Map.groupBy(taken(), ({ data }) => data.messageId).values()) {
    expect(some.map(({ type }) => type)).toEqual(['message.queued', 'message.sent']);
  }
  expect(failed.size).toBe(3);
});
