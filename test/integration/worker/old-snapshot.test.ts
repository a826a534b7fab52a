import { expect, test } from 'vitest';
import type { Json, Sql } from '#core/platform/postgres/postgres.ts';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { directoryStore } from '#core/store/tenants/directory.ts';
import { acceptMessages, type AcceptRow } from '#core/store/messages/acceptance.ts';
import { toAcceptBatch } from '#core/store/messages/accept-batch.ts';
import { holdSnapshot } from '#test/support/hold-snapshot.ts';
import { acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

/**
 * A transaction takes a snapshot and stays open, as a backup's does, so vacuum cannot remove row versions that die from then on.
 * The pages that a call reads must not grow with the number of changes since.
 */
const ROUNDS = 600;
const TENANTS = 2;

type Step = 'callers' | 'accept' | 'lanes' | 'claim' | 'waiting' | 'scheduled' | 'complete';

async function setup() {
  const stack = new AsyncDisposableStack();
  const stores = stack.use(await setupStores());
  const tenants = await Promise.all(
    Array.from({ length: TENANTS }, async () => {
      const tenant = await seedTenant(stores.admin);
      const accountId = await seedAccount(stores.admin, tenant.tenantId, { ratePerSecond: 10_000 });
      return { ...tenant, accountId };
    }),
  );
  const read: Record<Step, number[]> = {
    callers: [],
    accept: [],
    lanes: [],
    claim: [],
    waiting: [],
    scheduled: [],
    complete: [],
  };

  /** Calls a function of the schema and records how many pages it and everything it calls have read. */
  async function call(step: Step, sql: Sql, text: string, args: Json[]): Promise<void> {
    const rows = await sql.unsafe<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }[]>(
      `explain (analyze, buffers, format json) ${text}`,
      args as never[],
    );
    const plan = rows[0]?.['QUERY PLAN'][0].Plan;
    read[step].push((plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0));
  }

  /** Claims out of the lanes as a worker does whose look for due messages was at this instant. */
  async function claimOutOfLanes(looked: Date): Promise<void> {
    const at = looked.getTime();
    const dueFrom = [at, at, at];
    await call('lanes', stores.worker, 'select * from due_lanes($1, $2::text::json)', [
      looked.toISOString(),
      '[]',
    ]);
    for (const { tenantId, accountId } of tenants) {
      const lane = { tenant_id: tenantId, account_id: accountId, due_from: dueFrom, most: 10, ahead_ms: 0 };
      await call('claim', stores.worker, `select * from claim_due($1::text::json, 'w', 60000, 1000000)`, [
        JSON.stringify([lane]),
      ]);
      await call('waiting', stores.worker, 'select * from find_waiting_due($1, $2, 10, 1000, $3)', [
        tenantId,
        accountId,
        dueFrom,
      ]);
    }
  }

  /** Accepts a scheduled message of each tenant whose time comes at once, finds it and queues it. */
  async function queueScheduled(): Promise<void> {
    const [begun] = await stores.admin<{ now: Date }[]>`select clock_timestamp() as now`;
    const looked = begun?.now ?? new Date(0);
    const sendAt = new Date(looked.getTime() + 1).toISOString();
    const limits = { rate_per_minute: 1_000_000, messages_per_day: 1_000_000 };
    const rows = tenants.map((tenant) =>
      acceptRow(tenant, { ...limits, status: 'scheduled', send_at: sendAt }),
    ) as unknown as AcceptRow[];
    await acceptMessages(stores.api, rows, 0);
    for (const { tenantId } of tenants) {
      const args = [tenantId, looked.toISOString()];
      await call('scheduled', stores.worker, 'select * from find_scheduled_due($1, 10, $2)', args);
    }
    const seqs = rows.map(({ seq }) => seq);
    expect(await stores.store.moveMessages(seqs, 'queued', null, null)).toEqual(new Set(seqs));
    await claimByName(seqs);
    await complete(rows);
  }

  /** Takes a message of each tenant from its acceptance to its end, claimed out of its lane or by name. */
  async function round({ isNamed = false } = {}): Promise<void> {
    const [begun] = await stores.admin<{ now: Date }[]>`select clock_timestamp() as now`;
    const keys = tenants.map(({ apiKeyId }) => apiKeyId as ApiKeyId);
    await directoryStore(stores.api).touchApiKeys(new Map(keys.map((id) => [id, new Date()])));
    const names = `{${keys.map((id) => id.slice(0, 16)).join()}}`;
    await call('callers', stores.api, 'select * from find_callers($1::text[])', [names]);
    const limits = { rate_per_minute: 1_000_000, messages_per_day: 1_000_000 };
    const rows = tenants.map((tenant) => acceptRow(tenant, limits)) as unknown as AcceptRow[];
    const batch = toAcceptBatch(rows);
    await call('accept', stores.api, 'select * from accept($1::text::json, $2::text::json, null, 0)', [
      JSON.stringify(batch.callers),
      JSON.stringify(batch.messages),
    ]);
    if (isNamed) await claimByName(rows.map(({ seq }) => seq));
    else await claimOutOfLanes(begun?.now ?? new Date(0));
    await complete(rows);
  }

  /** Beyond the rate limits of the accounts. */
  async function claimByName(seqs: readonly number[]): Promise<void> {
    await stores.worker`select from claim(${[...seqs]}::bigint[], 'w', 60000, true, 786432)`;
  }

  async function complete(rows: readonly AcceptRow[]): Promise<void> {
    const ends = rows.map(({ seq, purge_on: purgeOn }) => ({
      seq,
      purge_on: purgeOn,
      attempt: 1,
      outcome: 'accepted',
      status: 'sent',
      retries: 0,
      ambiguous: 0,
      provider_waits: 0,
      duplicate_risk: false,
      final: true,
      discard: false,
      marketing: false,
    }));
    await call('complete', stores.worker, 'select * from complete($1::text::json)', [JSON.stringify(ends)]);
  }

  return {
    ...stores,
    tenants,
    read,
    round,
    queueScheduled,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Stops autovacuum, so that only the test updates the planner's statistics, whatever the load of the machine. */
async function stopAutovacuum(admin: Sql): Promise<void> {
  const tables = await admin<{ name: string }[]>`
    select oid::regclass::text as name from pg_class where relnamespace = 'despatch'::regnamespace and relkind = 'r'`;
  for (const { name } of tables) await admin.unsafe(`alter table ${name} set (autovacuum_enabled = off)`);
}

test('usage and rate counters are exact under concurrent updates, while their rows rotate', async () => {
  await using b = await setup();
  await Promise.all(Array.from({ length: 300 }, () => b.round({ isNamed: true })));
  const counted = await b.admin`
    select u.accepted, u.used, p.finished, w.total, w.slot > 5 as "isLater" from despatch.tenant_usage u
    join despatch.tenant_progress p using (tenant_id) join despatch.api_keys k using (tenant_id)
    join despatch.rate_windows w on w.subject = k.id`;
  const each = { accepted: 300, used: 300, finished: 300, total: 300, isLater: true };
  expect(counted).toEqual(b.tenants.map(() => each));
});

/** Ends the services' connections: the functions are planned again on new ones, with the statistics of that time. */
async function reconnect({ admin, api, worker }: Record<'admin' | 'api' | 'worker', Sql>): Promise<void> {
  await admin`
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and usename in ('despatch_api', 'despatch_worker')`;
  const isBack = () =>
    Promise.all([api`select 1`, worker`select 1`]).then(
      () => true,
      () => false,
    );
  await expect.poll(isBack).toBe(true);
}

/** Returns the mean without the highest tenth, which includes cache misses after other sessions changed shared catalogs. */
function usual(pages: readonly number[]): number {
  const kept = pages.toSorted((a, b) => a - b).slice(0, Math.ceil(0.9 * pages.length));
  return kept.reduce((sum, n) => sum + n, 0) / kept.length;
}

test.each([
  ['no call reads more pages', 'round'],
  ['no search for scheduled messages reads more pages', 'queueScheduled'],
] as const)(
  'under an old snapshot %s as changes accumulate',
  async (_call, round) => {
    await using b = await setup();
    await stopAutovacuum(b.admin);
    const reader = await holdSnapshot(b.admin);
    for (let i = 0; i < ROUNDS; i += 1) {
      // Analyzes as autovacuum does; the statistics then say that there are hardly any rows.
      if (i === ROUNDS / 10) await b.admin`analyze`;
      if (i % 100 === 50) await reconnect(b);
      await b[round]();
    }
    await reader[Symbol.asyncDispose]();
    const made = Object.entries(b.read).filter(([, pages]) => pages.length > 0);
    const growth = made.map(([step, pages]) => {
      const tenth = pages.length / 10;
      // By then the plans have been made again.
      return { step, early: usual(pages.slice(2 * tenth, 3 * tenth)), late: usual(pages.slice(-tenth)) };
    });
    const [ended] = await b.admin`select count(*)::int as n from despatch.message_results`;
    expect(ended?.['n']).toBe(ROUNDS * TENANTS);
    expect(growth.filter(({ early, late }) => late > 1.2 * early)).toEqual([]);
  },
  300_000,
);

test('under an old snapshot a claim reads no more pages, even with outdated planner statistics', async () => {
  await using b = await setup();
  await stopAutovacuum(b.admin);
  const reader = await holdSnapshot(b.admin);
  for (let i = 0; i < 160; i += 1) {
    // The statistics are of hardly any messages, which are in two states.
    if (i === 60) await b.admin`analyze`;
    await b.round();
    await b.queueScheduled();
  }
  await reader[Symbol.asyncDispose]();
  const [before, after] = [usual(b.read.claim.slice(80, 120)), usual(b.read.claim.slice(-40))];
  expect(after).toBeLessThan(2 * before);
}, 120_000);
