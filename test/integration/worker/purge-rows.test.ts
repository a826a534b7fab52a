import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Maintained } from '#core/store/upkeep/partitions.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { acceptBatch, acceptRow, seedTenant } from '#test/support/seed.ts';
import { setupMessages } from '#test/support/setup-messages.ts';
import { setupStores } from '#test/support/setup-stores.ts';

type Stores = Awaited<ReturnType<typeof setupStores>>;

const EXPIRED = 12_000;

/** Inserts due rows, five of six for events whose retention is over. */
async function expire(admin: Stores['admin']): Promise<void> {
  await admin`
    insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
    select ${randomUUID()}, ${randomUUID()}, n, n, case when n % 6 = 0 then current_date + 7 else date '2020-01-06' end, 'infinity'
    from generate_series(1, ${EXPIRED}::int) n`;
}

/** Makes every purge of due deliveries fail with this SQLSTATE. */
async function refuseWith({ admin }: Stores, code: string): Promise<void> {
  await admin.unsafe(`create function public.refuse() returns trigger language plpgsql as
    $$ begin raise exception 'refused' using errcode = '${code}'; end $$`);
  await admin`create trigger refuse before delete on despatch.due_deliveries for each row execute function public.refuse()`;
}

const failuresOf = (result: Maintained | 'elsewhere') =>
  result === 'elsewhere'
    ? [result]
    : result.failures.map(({ what, error }) => `${what}: ${(error as Error).message}`);

const failedIn = async ({ store }: Stores) => failuresOf(await store.maintain());

test('expired rows are purged in bounded steps, each in its own commit', async () => {
  await using b = await setupStores();
  await expire(b.admin);
  await b.admin`create table public.steps (xid xid8, n bigint)`;
  await b.admin`grant insert on public.steps to public`;
  await b.admin`create function public.note() returns trigger language plpgsql as
    $$ begin insert into public.steps select pg_current_xact_id(), count(*) from gone; return null; end $$`;
  await b.admin`create trigger note after delete on despatch.due_deliveries referencing old table as gone
    for each statement execute function public.note()`;

  await b.store.maintain();

  const steps = await b.admin<
    { n: number }[]
  >`select sum(n)::int as n from public.steps group by xid order by xid`;
  expect(Math.max(...steps.map(({ n }) => n))).toBeLessThanOrEqual(5_000);
  expect(steps.reduce((sum, { n }) => sum + n, 0)).toBe(EXPIRED - EXPIRED / 6);
  expect(await b.admin`select from despatch.due_deliveries`).toHaveLength(EXPIRED / 6);
});

test('a table whose purge fails does not prevent the purge of other tables', async () => {
  await using b = await setupStores();
  await expire(b.admin);
  await b.admin`insert into despatch.workers (name, first_claim_at) values ('old', '2020-01-01')`;
  await b.admin`
    insert into despatch.messages_default (seq, enqueued_at, purge_on, priority, test, id, tenant_id, channel, recipient, category,
      delivery_guarantee, content_retention)
    values (1, now(), '2020-01-06', 1, false, ${randomUUID()}, ${randomUUID()}, 'sms', 'x', 'otp', 'at_most_once', 'discard')`;
  await b.admin`create function public.refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`;
  for (const table of ['messages_default', 'due_deliveries'])
    await b.admin`create trigger refuse before delete on ${b.admin(`despatch.${table}`)} for each row execute function public.refuse()`;
  expect(await failedIn(b)).toEqual(['messages_default: refused', 'due_deliveries: refused']);
  expect(await b.admin`select from despatch.workers`).toHaveLength(0);
  await b.admin`drop trigger refuse on despatch.messages_default`;
  expect(await failedIn(b)).toEqual(['due_deliveries: refused']);
  expect(await b.admin`select from despatch.messages`).toHaveLength(0);
});

test.each([
  { what: 'takes too long', code: '57014', busy: [], failed: ['due_deliveries: refused'] },
  { what: 'waits for a lock for too long', code: '55P03', busy: ['due_deliveries'], failed: [] },
  { what: 'is in a deadlock', code: '40P01', busy: ['due_deliveries'], failed: [] },
])('a purge that $what each time does not prevent that of later tables', async ({ code, busy, failed }) => {
  await using b = await setupStores();
  await expire(b.admin);
  await refuseWith(b, code);
  await b.admin`insert into despatch.workers (name, first_claim_at) values ('old', '2020-01-01')`;
  const result = await b.store.maintain();
  expect(result).toMatchObject({ busy });
  expect(failuresOf(result)).toEqual(failed);
  expect(await b.admin`select from despatch.workers`).toHaveLength(0);
});

test('a table that another session has locked is left alone after a second, and reported as busy', async () => {
  await using b = await setupStores();
  await b.admin`insert into despatch.workers (name, first_claim_at) values ('old', '2020-01-01')`;
  const [locked, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const holder = b.admin.begin(async (tx) => {
    await tx`lock table despatch.suppressions`;
    locked.resolve();
    await finish.promise;
  });
  await locked.promise;
  const result = await b.store.maintain();
  finish.resolve();
  await holder;
  expect(result).toMatchObject({ busy: ['suppressions'], failures: [] });
  expect(await b.admin`select from despatch.workers`).toHaveLength(0);
});

test('upkeep ends at once when the database is lost', async () => {
  await using b = await setupStores();
  await expire(b.admin);
  await refuseWith(b, '57P01');
  await b.admin`insert into despatch.workers (name, first_claim_at) values ('old', '2020-01-01')`;
  expect(await failedIn(b)).toEqual(['due_deliveries: refused']);
  expect(await b.admin`select from despatch.workers`).toHaveLength(1);
});

/** A message may be scheduled 365 days ahead and postponed by 7, and is kept for 365 days and until a Monday. */
const RECORD_DAYS_MAX = 365 + 7 + 365 + 6;

test('workers, routes and accounts outlive every record that names them', async () => {
  await using b = await setupMessages();
  for (const [name, days] of [
    ['named', RECORD_DAYS_MAX],
    ['gone', RECORD_DAYS_MAX + 31],
  ] as const) {
    const at = `${days} days`;
    await b.admin`insert into despatch.workers (name, first_claim_at) values (${name}, now() - ${at}::interval)`;
    await b.admin`
      insert into despatch.routes (tenant_id, channel, version, strategy, steps, failover_on, created_at, replaced_at)
      values (${b.tenant.tenantId}, 'sms', ${days}, 'priority', '[]', '{}', '2020-01-01', now() - ${at}::interval)`;
    await b.admin`
      insert into despatch.provider_accounts (id, tenant_id, provider, channel, label, status, config_public, updated_at, emptied_at)
      values (gen_random_uuid(), ${b.tenant.tenantId}, 'twilio', 'sms', ${name}, 'deleted', '{}', '2020-01-01', now() - ${at}::interval)`;
  }
  await b.store.maintain();
  const left = await b.admin<{ what: string }[]>`
    select name as what from despatch.workers where name in ('named', 'gone')
    union all select version::text from despatch.routes where replaced_at is not null
    union all select label from despatch.provider_accounts where emptied_at is not null`;
  expect(left.map(({ what }) => what)).toEqual(['named', String(RECORD_DAYS_MAX), 'named']);
});

test('replaced routes are purged after their messages, the current route never', async () => {
  await using b = await setupStores();
  await b.admin`
    with t as (insert into despatch.tenants (id, slug, name) values (gen_random_uuid(), 't', 't') returning id)
    insert into despatch.routes (tenant_id, channel, version, strategy, steps, failover_on, created_at, replaced_at)
    select t.id, 'sms', v.version, 'priority', '[]', '{}', '2020-01-01', v.replaced_at from t,
      (values (1, timestamptz '2020-02-01'), (2, now() - interval '1 year'), (3, null)) as v (version, replaced_at)`;
  await b.store.maintain();
  const left = await b.admin<{ version: number }[]>`select version from despatch.routes order by version`;
  expect(left.map(({ version }) => version)).toEqual([2, 3]);
});

test('receipt calls to deleted accounts are purged, and no others', async () => {
  await using b = await setupStores();
  const [account] = await b.admin<{ id: string }[]>`
    with t as (insert into despatch.tenants (id, slug, name) values (gen_random_uuid(), 't', 't') returning id)
    insert into despatch.provider_accounts (id, tenant_id, provider, channel, label, config_public)
    select gen_random_uuid(), id, 'twilio', 'sms', 'x', '{}' from t returning id`;
  await b.admin`
    insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body, received_at, due_at)
    select gen_random_uuid(), a, 'POST', 1, '', '{}', '', now(), now()
    from unnest(${[randomUUID(), account?.id ?? '', randomUUID()]}::uuid[]) a, generate_series(1, 3)`;
  await b.store.maintain();
  const left = await b.admin`select account_id as id from despatch.receipt_calls`;
  expect(left).toEqual([account, account, account]);
});

test('a deleted account leaves the looks for lanes once it has no message, and its row goes after the longest retention', async () => {
  await using b = await setupMessages();
  const stored = async () => {
    const rows = await b.admin<{ label: string; emptied: boolean }[]>`
      select label, emptied_at is not null as emptied from despatch.provider_accounts order by label`;
    return rows.map(({ label, emptied }) => `${label} ${emptied}`);
  };
  const add = (label: string, status: string, changed: string, emptied: string | null = null) =>
    b.admin`
      insert into despatch.provider_accounts (id, tenant_id, provider, channel, label, status, config_public, updated_at, emptied_at)
      select gen_random_uuid(), tenant_id, 'simulator-sms', 'sms', ${label}, ${status}, '{}', now() - ${changed}::interval,
        now() - ${emptied}::interval from despatch.provider_accounts where id = ${b.accountId}`;
  await b.accept();
  await b.admin`update despatch.provider_accounts set label = 'busy', status = 'deleted', updated_at = now() - interval '1 day'`;
  await add('idle', 'deleted', '61 minutes');
  await add('new', 'deleted', '59 minutes');
  await add('old', 'deleted', '3 years', '3 years');
  await add('used', 'active', '3 years');
  await b.store.maintain();
  expect(await stored()).toEqual(['busy false', 'idle true', 'new false', 'used false']);
  await b.admin`delete from despatch.live_messages`;
  await b.store.maintain();
  expect(await stored()).toEqual(['busy true', 'idle true', 'new false', 'used false']);
});

describe('a rate window that is purged as unused while its subject is counted again', () => {
  /** Makes the subject's window old, and calls `count` while its purge is not committed yet. */
  async function countDuringPurge<T>(
    { admin }: Stores,
    subject: string,
    count: () => Promise<T>,
  ): Promise<T> {
    await admin`insert into despatch.rate_windows (subject, second)
      values (${subject}, extract(epoch from now())::bigint - 4000)`;
    let counting: Promise<T> | undefined;
    await admin.begin(async (tx) => {
      expect(await tx`select despatch.purge_rows('rate_windows', 10) as n`).toEqual([{ n: 1 }]);
      counting = count();
      await expect.poll(() => lockWaits(admin)).toHaveLength(1);
    });
    return (await counting) as T;
  }
  const totals = ({ admin }: Stores, subject: string) =>
    admin`select total from despatch.rate_windows where subject = ${subject}`;

  test('has the messages of that key', async () => {
    await using b = await setupStores();
    const tenant = await seedTenant(b.admin);
    const send = () => acceptBatch(b.api, [acceptRow(tenant, { rate_per_minute: 1 })]);
    expect(await countDuringPurge(b, tenant.apiKeyId, send)).toMatchObject([{ verdict: 'accepted' }]);
    expect(await totals(b, tenant.apiKeyId)).toEqual([{ total: 1 }]);
    expect(await send()).toMatchObject([{ verdict: 'rate_limited' }]);
  });

  test('has the calls of that person', async () => {
    await using b = await setupStores();
    const subject = randomUUID();
    const take = () => b.api`select passed from take_rate(${subject}, 60, 60)`;
    expect(await countDuringPurge(b, subject, async () => [...(await take())])).toEqual([{ passed: 60 }]);
    expect(await totals(b, subject)).toEqual([{ total: 60 }]);
    expect(await take()).toEqual([{ passed: 0 }]);
  });
});

test('a purge of unused rate windows leaves out one that is being counted', async () => {
  await using b = await setupStores();
  const [counted, unused] = [randomUUID(), randomUUID()];
  for (const subject of [counted, unused])
    await b.admin`insert into despatch.rate_windows (subject, second) values (${subject}, 0)`;
  await b.admin.begin(async (tx) => {
    await tx`select from despatch.rate_windows where subject = ${counted} for update`;
    expect(await b.worker`select purge_rows('rate_windows', 10) as n`).toEqual([{ n: 1 }]);
  });
  expect(await b.admin`select subject from despatch.rate_windows`).toEqual([{ subject: counted }]);
});
