import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startLoad } from '#test/support/send-load.ts';
import type { ServiceProcess } from '#test/support/service-process.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';

// Several rounds of sends take seconds on a busy machine, and no call of the first round may time out before the last.
const DEADLINE_MS = 15_000;
const LEASE_MS = 30_000;

let stack: ServiceStack;

beforeAll(async () => {
  stack = await startServiceStack({
    worker: {
      PROVIDER_DEADLINE_MS: String(DEADLINE_MS),
      // The provider's stand-in shares a process with the load, so the number of open calls is bounded: all of them must be
      // answered within the deadline.
      IN_FLIGHT_MAX: '90',
      LEASE_MS: String(LEASE_MS),
      SWEEP_INTERVAL_MS: '250',
    },
  });
});
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
});
afterEach(async () => {
  stack.gate.open();
  await Promise.all([...stack.apis, ...stack.workers].map(({ start }) => start()));
});

const SOON = { interval: 25 };
/** A lease, the backoff after an ambiguous call, a sweep, and an allowance. */
const AFTER_LEASE = { timeout: LEASE_MS + 45_000, interval: 100 };

const newMark = (): string => `mark${randomBytes(8).toString('hex')}`;

async function send(
  api: ServiceProcess,
  tenant: StackTenant,
  body: Record<string, unknown>,
): Promise<string> {
  const answer = await call(api.origin, 'POST', '/v1/messages', {
    key: tenant.serviceKey,
    body: { channel: 'sms', to: '+14155550100', ...body },
  });
  expect(answer.status).toBe(202);
  return answer.body.id as string;
}

/** How often each text reached the provider. */
function copies(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { text } of stack.texts()) counts.set(text, (counts.get(text) ?? 0) + 1);
  return counts;
}

type Row = { id: string; text: string; status: string; duplicateRisk: boolean; guarantee: string };

async function rowsOf(tenant: StackTenant): Promise<Row[]> {
  return stack.admin<Row[]>`
    select m.id, m.content ->> 'body' as text, s.status, s.duplicate_risk as "duplicateRisk",
      m.delivery_guarantee as guarantee
    from messages m join message_states s using (seq, purge_on) where m.tenant_id = ${tenant.id}`;
}

async function uncheckedAccounts(tenant: StackTenant): Promise<number> {
  const [row] = await stack.admin<{ n: number }[]>`
    select count(*)::int as n from provider_accounts where tenant_id = ${tenant.id} and verify_requested_at is not null`;
  return row?.n ?? 0;
}

async function openAttempts(worker?: string): Promise<number> {
  const [row] = await stack.admin<{ n: number }[]>`
    select count(*)::int as n from attempts a join workers w on w.id = a.worker
    where a.outcome = 'started' and w.name like ${worker === undefined ? '%' : `${worker}:%`}`;
  return row?.n ?? 0;
}

test('a killed worker loses no message, and only those with duplicateRisk arrive twice', async () => {
  const tenant = await stack.tenant();
  // The check of a new account makes a provider call too.
  await expect.poll(() => uncheckedAccounts(tenant), SOON).toBe(0);
  stack.gate.close();
  const [first, second] = stack.workers;
  // Repeats until both workers have calls in flight: the killed worker's attempts and those that the other continues. Messages of
  // one commit share a wake-up, which one worker takes.
  let lost = 0;
  let count = 0;
  while (lost === 0 || (await openAttempts(second.name)) === 0) {
    const guarantees = ['at_most_once', 'at_least_once', 'at_least_once', 'at_least_once'];
    await Promise.all(
      guarantees.map((deliveryGuarantee) =>
        send(stack.apis[0], tenant, { body: newMark(), deliveryGuarantee }),
      ),
    );
    count += guarantees.length;
    await expect.poll(() => stack.gate.waiting(), SOON).toBe(count);
    lost = await openAttempts(first.name);
  }
  await first.kill();
  stack.gate.open();

  await expect
    .poll(async () => {
      const { sent = 0, unknown = 0 } = await stack.states(tenant.id);
      return sent + unknown;
    }, AFTER_LEASE)
    .toBe(count);
  const rows = await rowsOf(tenant);
  const arrived = copies();
  expect(rows.filter(({ text }) => (arrived.get(text) ?? 0) === 0)).toEqual([]);
  expect(rows.filter(({ text, duplicateRisk }) => (arrived.get(text) ?? 0) > 1 && !duplicateRisk)).toEqual(
    [],
  );
  expect(
    rows.filter(({ text, guarantee }) => guarantee === 'at_most_once' && arrived.get(text) !== 1),
  ).toEqual([]);
  const isRepeated = ({ duplicateRisk }: Row): boolean => duplicateRisk;
  const isUnknown = ({ status }: Row): boolean => status === 'unknown';
  expect(rows.filter(isRepeated).length + rows.filter(isUnknown).length).toBe(lost);
  expect(rows.filter(isUnknown).every(({ guarantee }) => guarantee === 'at_most_once')).toBe(true);
  expect(await openAttempts()).toBe(0);
});

test('an api killed under load has stored every message answered with 202; each is sent once', async () => {
  const tenant = await stack.tenant();
  const [first, second] = stack.apis;
  const load = startLoad([first, second], tenant.serviceKey, 6);
  await expect.poll(() => load.acknowledged.size, SOON).toBeGreaterThan(200);
  await first.kill();
  const before = load.acknowledged.size;
  await expect.poll(() => load.acknowledged.size, SOON).toBeGreaterThan(before + 100);
  await load.stop();

  const rows = await rowsOf(tenant);
  const stored = new Set(rows.map(({ id }) => id));
  expect([...load.acknowledged.keys()].filter((id) => !stored.has(id))).toEqual([]);
  await expect.poll(() => stack.states(tenant.id)).toEqual({ sent: rows.length });
  const arrived = copies();
  expect(rows.filter(({ text }) => arrived.get(text) !== 1)).toEqual([]);
});

test('an api that shuts down answers the requests in flight and exits with code 0', async () => {
  const tenant = await stack.tenant();
  const [first, second] = stack.apis;
  await Promise.all([send(first, tenant, { body: newMark() }), send(second, tenant, { body: newMark() })]);
  const release = await blockAccepting();
  const texts = Array.from({ length: 8 }, newMark);
  const requests = texts.map((body) => send(first, tenant, { body }));
  await expect.poll(async () => inFlight(await first.metrics()), SOON).toBe(texts.length);
  const ended = first.end();
  await expect.poll(() => refuses(first), SOON).toBe(true);
  await release();
  const ids = await Promise.all(requests);
  expect(await ended).toBe('exit code 0');

  expect(new Set(ids).size).toBe(texts.length);
  await expect.poll(() => stack.states(tenant.id), AFTER_LEASE).toEqual({ sent: texts.length + 2 });
  const arrived = copies();
  expect(texts.filter((text) => arrived.get(text) !== 1)).toEqual([]);
});

/** Blocks every acceptance in the database. @returns a function that releases them. */
async function blockAccepting(): Promise<() => Promise<void>> {
  const [locked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const blocking = stack.admin.begin(async (tx) => {
    await tx`lock table tenant_usage in access exclusive mode`;
    locked.resolve();
    await released.promise;
  });
  await Promise.race([locked.promise, blocking]);
  return async () => {
    released.resolve();
    await blocking;
  };
}

function inFlight(exposition: string): number {
  return Number(/^despatch_http_requests_in_flight (\d+)/m.exec(exposition)?.[1]);
}

/** Returns whether the process refuses new connections. */
function refuses({ origin }: ServiceProcess): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(origin).port), '127.0.0.1');
    const settle = (isRefused: boolean): void => {
      socket.destroy();
      resolve(isRefused);
    };
    socket.once('connect', () => settle(false));
    socket.once('error', () => settle(true));
  });
}

test('a worker that shuts down under load records its calls in flight and exits with code 0', async () => {
  const tenant = await stack.tenant();
  const [first, second] = stack.workers;
  const load = startLoad(stack.apis, tenant.serviceKey, 8);
  await expect.poll(() => load.acknowledged.size, SOON).toBeGreaterThan(100);
  stack.gate.close();
  // Calls that had passed the gate before it closed have ended, so all open attempts wait at the gate.
  const isHeld = async (): Promise<boolean> =>
    (await openAttempts(first.name)) > 0 && (await openAttempts()) <= stack.gate.waiting();
  await expect.poll(isHeld, SOON).toBe(true);
  const ended = first.end();
  await expect.poll(async () => (await first.readiness()).failing, SOON).toEqual(['ending']);
  stack.gate.open();
  expect(await ended).toBe('exit code 0');
  expect(await openAttempts(first.name)).toBe(0);
  const { size } = load.acknowledged;
  await expect.poll(() => load.acknowledged.size, SOON).toBeGreaterThan(size + 50);
  await load.stop();

  const rows = await rowsOf(tenant);
  expect(rows).toHaveLength(load.acknowledged.size);
  await expect.poll(() => stack.states(tenant.id)).toEqual({ sent: rows.length });
  const arrived = copies();
  expect(rows.filter(({ text, duplicateRisk }) => arrived.get(text) !== 1 || duplicateRisk)).toEqual([]);
  expect(await openAttempts(second.name)).toBe(0);
});
