import { expect, test } from 'vitest';
import { encodeWakes, type Wake } from '#core/domain/queue/wake.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import type { Worker } from '../../../services/worker/build-worker.ts';

/** Messages that wait for their provider must not keep the database busy: the tests count the worker's queries. */
type Delivery = Awaited<ReturnType<typeof setupWorkers>>;

const POLL = { interval: 20 };
const QUEUED = 10_000;
const LIMITS = { rate_per_minute: 1_000_000, messages_per_day: 1_000_000 };

/** Accepts this many messages, due at once for the sweep too. */
async function queue(b: Delivery, of: SeededTenant, n: number, overrides: object = {}): Promise<Wake[]> {
  const rows = Array.from({ length: n }, () => acceptRow(of, { ...LIMITS, ...overrides }));
  // As an api leaves them whose messages have contents that are stored apart.
  if ('content' in overrides)
    await b.admin`insert into despatch.unsettled_contents (message_seq, purge_on, tenant_id)
      select u.seq, u.day, ${of.tenantId} from unnest(${rows.map(({ seq }) => seq)}::bigint[],
        ${rows.map((row) => row.purge_on)}::date[]) as u (seq, day)`;
  for (let i = 0; i < n; i += 1_000) await acceptBatch(b.api, rows.slice(i, i + 1_000), 0);
  return rows.map((row) => ({ seq: row.seq, tenantId: of.tenantId, accountId: row.account_id, priority: 1 }));
}

function wakeAll(worker: Worker, wakes: readonly Wake[]): void {
  for (let i = 0; i < wakes.length; i += 100) worker.wake(encodeWakes(wakes.slice(i, i + 100)), 'normal');
}

/** Wraps the store and counts the calls of each function. */
function counted(store: WorkerStore) {
  const calls: Record<string, number> = {};
  const watched = Object.entries(store).map(([name, call]) => [
    name,
    (...args: never[]) => {
      calls[name] = (calls[name] ?? 0) + 1;
      return (call as (...args: never[]) => unknown)(...args);
    },
  ]);
  return { calls, store: Object.fromEntries(watched) as WorkerStore };
}

async function liveUpdates(b: Delivery): Promise<number> {
  const [row] = await b.admin<{ n: number }[]>`
    select n_tup_upd::int as n from pg_stat_user_tables where relid = 'despatch.live_messages'::regclass`;
  return row?.n ?? 0;
}

test('ten thousand messages behind a rate limit of one a second cost a few queries a second', async () => {
  await using b = await setupWorkers({ sweepMs: 1_000 });
  await b.admin`update despatch.provider_accounts set rate_limit_per_second = 1`;
  const { calls, store } = counted(b.store);
  const wakes = await queue(b, b.tenant, QUEUED);
  const worker = b.startWorker({}, store);
  wakeAll(worker, wakes);
  await expect.poll(() => b.twilio.received.length, POLL).toBeGreaterThanOrEqual(2);

  const [before, updates, sent] = [{ ...calls }, await liveUpdates(b), b.twilio.received.length];
  const started = performance.now();
  await expect.poll(() => b.twilio.received.length, POLL).toBeGreaterThanOrEqual(sent + 5);
  // Adds the partial seconds at both ends.
  const seconds = (performance.now() - started) / 1_000 + 2;
  const since = (name: keyof WorkerStore) => (calls[name] ?? 0) - (before[name] ?? 0);
  expect(since('claim') + since('claimDue')).toBeLessThanOrEqual(3 * seconds);
  // The search for expired or lost messages reads past all of them.
  expect(since('findWaiting') + since('findWaitingDue')).toBeLessThanOrEqual(seconds / 2);
  expect((await liveUpdates(b)) - updates).toBeLessThanOrEqual(3 * seconds);
});

test('large messages of an invalid account are not loaded, and other tenants are served', async () => {
  await using b = await setupWorkers({ sweepMs: 200 });
  await b.admin`update despatch.provider_accounts set status = 'invalid'`;
  const other = await seedTenant(b.admin);
  await seedAccount(b.admin, other.tenantId);
  const { calls, store } = counted(b.store);
  const wakes = await queue(b, b.tenant, 700, { content: { storedBytes: 1_048_576 } });
  const worker = b.startWorker({}, store);
  wakeAll(worker, wakes);
  // The first claimed attempts find out that the account is blocked.
  await expect.poll(() => attemptsEnded(b), POLL).toBeGreaterThan(0);
  wakeAll(worker, wakes);
  await b.send(20, {}, { of: other });
  await expect.poll(async () => (await b.statuses())['delivered'], POLL).toBe(20);
  expect(calls['loadContent']).toBeUndefined();
  // At most the attempts that were in flight when the worker found the account blocked.
  expect(await attemptsEnded(b)).toBeLessThanOrEqual(64);
  expect(b.twilio.received).toEqual([]);
});

test('without a credential few attempts are made, and all messages are sent once it is back', async () => {
  await using b = await setupWorkers({ sweepMs: 200 });
  b.credentials.down = true;
  const wakes = await queue(b, b.tenant, 700);
  const worker = b.startWorker();
  wakeAll(worker, wakes);
  await expect.poll(() => attemptsEnded(b), POLL).toBeGreaterThan(0);
  await new Promise((resolve) => setTimeout(resolve, 10_000));
  // The attempts that were in flight when the worker found the credential unavailable, and one every few seconds.
  expect(await attemptsEnded(b)).toBeLessThanOrEqual(64);
  expect(b.twilio.received).toEqual([]);
  b.credentials.down = false;
  await expect.poll(async () => (await b.statuses())['sent'], { interval: 100, timeout: 20_000 }).toBe(700);
});

test('messages that expire while their account cannot be called end without waiting for its next probe', async () => {
  await using b = await setupWorkers({ sweepMs: 200 });
  await b.admin`update despatch.provider_accounts set status = 'invalid'`;
  for (let i = 0; i < 10; i += 1) b.twilio.fail({ kind: 'reply', status: 401, body: { code: 20003 } });
  const { calls, store } = counted(b.store);
  const wakes = await queue(b, b.tenant, 1_500);
  const worker = b.startWorker({}, store);
  wakeAll(worker, wakes);
  // The probe was refused, so that the next one is made after a quarter of a minute.
  await expect.poll(() => b.twilio.received.length, { interval: 20, timeout: 15_000 }).toBe(1);
  const before = calls['findWaitingDue'] ?? 0;
  await b.admin`update despatch.live_messages set expires_at = now()`;
  // Those that were tried before wait for a time of their own.
  const expired = async () => (await b.statuses())['expired'] ?? 0;
  await expect.poll(expired, { interval: 100, timeout: 10_000 }).toBeGreaterThanOrEqual(1_400);
  expect(b.twilio.received).toHaveLength(1);
  expect((calls['findWaitingDue'] ?? 0) - before).toBeLessThanOrEqual(15);
});

async function attemptsEnded(b: Delivery): Promise<number> {
  const [row] = await b.admin<{ n: number }[]>`
    select count(*)::int as n from despatch.attempts where ended_at is not null and tenant_id = ${b.tenant.tenantId}`;
  return row?.n ?? 0;
}
