import { expect, test } from 'vitest';
import { managedTenantStore } from '#core/store/tenants/managed-tenants.ts';
import { backdatePurge } from '#test/support/backdate-purge.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { testDatabase } from '#test/support/servers.ts';
import { leftoversOf } from '#test/support/tenant-leftovers.ts';

const ROWS = 25;
const AT_ONCE = 10;

async function setup() {
  const database = await testDatabase();
  const [admin, api, worker] = [database.open('admin'), database.open('api'), database.open('worker')];
  await admin`set search_path = despatch`;
  const store = managedTenantStore(database.open('controller'), 'https://issuer.test', () => undefined);
  const tenant = await seedTenant(admin);
  const { tenantId } = tenant;
  const accountId = await seedAccount(admin, tenantId);
  const owned = { slug: tenant.slug, uid: 'u' };

  async function endpoint(): Promise<string> {
    const [made] = await admin<{ id: string }[]>`
      insert into despatch.webhook_endpoints (tenant_id, url, event_types, secret, matched_to)
      values (${tenantId}, 'https://hooks.test/', '{*}', 's', 0) returning id`;
    return made?.id ?? '';
  }
  async function begin(): Promise<void> {
    await admin`update despatch.tenants set owner_uid = 'u', owner_ref = 'n/t' where id = ${tenantId}`;
    await store.beginPurge({ ...owned, ref: 'n/t', createdAt: '2026-01-01T00:00:00Z' });
    await backdatePurge(admin, tenant.slug);
  }
  /** Purges until only the tenant's own rows are left. @returns the number of deleted rows of each step. */
  async function purge(): Promise<number[]> {
    const deleted: number[] = [];
    for (;;) {
      const step = await store.purgeSome(owned, AT_ONCE);
      if (step.outcome !== 'deleted') return deleted;
      deleted.push(step.deleted);
    }
  }
  const number = () => worker`select number_changes(1000, 0)`;
  const count = () => worker`select count_usage(1000, 0)`;
  const leftovers = () => leftoversOf(admin, tenantId);
  return {
    admin,
    api,
    store,
    tenant,
    accountId,
    owned,
    endpoint,
    begin,
    purge,
    number,
    count,
    leftovers,
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

test('a purge deletes long feeds, endpoint queues and counts in batches before its final step', async () => {
  await using b = await setup();
  const { tenantId } = b.tenant;
  const endpoint = await b.endpoint();
  await b.admin`
    insert into despatch.feed (first_seq, last_seq, numbered_at, tenant_id, purge_on, seqs, numbers)
    select n, n, now(), ${tenantId}, current_date + 30 + 7 * (n % 2), array[n], array[0] from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.tenant_events (purge_on, tenant_id, type, details, at)
    select current_date + 30, ${tenantId}, 'provider.active', '{}', now() from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
    select n, n, n, now(), ${endpoint}, ${tenantId}, current_date + 30, array[n], array[0] from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.endpoint_heads (endpoint_id, feed_seq, last_seq, tenant_id)
    select ${endpoint}, n, n, ${tenantId} from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
    select ${endpoint}, ${tenantId}, n, n, current_date + 30, now() from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.delivery_attempts (endpoint_id, seq, attempt, purge_on, tenant_id, at, duration_ms, succeeded)
    select ${endpoint}, n, 1, current_date + 30, ${tenantId}, now(), 1, true from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.suppressions (tenant_id, channel, address_key, reason, scope, source)
    select ${tenantId}, 'sms', decode(lpad(n::text, 32, '0'), 'hex'), 'manual', 'all', 'api' from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.usage_counts
    select ${tenantId}, 'tag', now() - n * interval '1 day', '', n::text, 'sent', 1, 1 from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.usage_times
    select ${tenantId}, 'tag', now() - n * interval '1 day', '', n::text, 'provider', '{1}' from generate_series(1, ${ROWS}::int) n`;
  await b.admin`
    insert into despatch.account_counts
    select ${tenantId}, gen_random_uuid(), now(), 1, 0, 0, 1, 0, '{1}' from generate_series(1, ${ROWS}::int) n`;
  await b.begin();

  const steps = await b.purge();

  expect(Math.max(...steps)).toBeLessThanOrEqual(AT_ONCE);
  const left = await b.leftovers();
  for (const table of [
    'feed',
    'tenant_events',
    'endpoint_feed',
    'endpoint_heads',
    'due_deliveries',
    'delivery_attempts',
    'webhook_endpoints',
    'suppressions',
    'usage_counts',
    'usage_times',
    'account_counts',
  ])
    expect(left).not.toHaveProperty(table);
  expect(await b.store.endPurge(b.owned)).toBe(true);
  expect(await b.leftovers()).toEqual({});
});

test('a usage count that runs concurrently with a purge leaves no usage rows', async () => {
  await using b = await setup();
  await acceptBatch(b.api, [acceptRow(b.tenant)]);
  await b.count();
  expect(await b.leftovers()).toHaveProperty('usage_counts');
  await acceptBatch(b.api, [acceptRow(b.tenant)]);
  await b.begin();
  await b.count();
  await b.purge();
  await b.count();
  // A pass that started before the purge commits first, with the rows that it stored.
  const [counting, done] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const late = b.admin.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('despatch.usage'))`;
    await tx`insert into despatch.usage_counts values (${b.tenant.tenantId}, 'day', now(), 'sms', '', 'sent', 1, 1)`;
    counting.resolve();
    await done.promise;
  });
  await counting.promise;
  const ended = b.store.endPurge(b.owned);
  await expect
    .poll(
      () => b.admin`
        select from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`,
    )
    .toHaveLength(1);
  done.resolve();
  await late;
  expect(await ended).toBe(true);
  expect(await b.leftovers()).toEqual({});
});

test('a purge deletes receipts in batches, and does not scan them while messages are left', async () => {
  await using b = await setup();
  await acceptBatch(b.api, [acceptRow(b.tenant), acceptRow(b.tenant)]);
  await b.admin`
    insert into despatch.receipts (tenant_id, account_id, provider_message_id, apply_at)
    select ${b.tenant.tenantId}, ${b.accountId}, n::text, now() from generate_series(1, ${ROWS}::int) n`;
  await b.begin();

  const looks = await b.admin.begin(async (tx) => {
    const [step] = await tx`select outcome from despatch.purge_some(${b.owned.slug}, ${b.owned.uid}, 1)`;
    const [table] = await tx<{ looks: number }[]>`
      select seq_scan as looks from pg_stat_xact_user_tables where relid = 'despatch.receipts'::regclass`;
    return { ...step, looks: table?.looks };
  });
  expect(looks).toEqual({ outcome: 'deleted', looks: 0 });

  expect(Math.max(...(await b.purge()))).toBeLessThanOrEqual(AT_ONCE);
  expect(await b.leftovers()).not.toHaveProperty('receipts');
});

test("a purge reads no other tenants' receipts, and does not scan all idempotency keys per step", async () => {
  await using b = await setup();
  const other = await seedTenant(b.admin);
  const otherAccount = await seedAccount(b.admin, other.tenantId);
  const many = 2_000;
  const addReceipts = (tenantId: string, accountId: string | null, waiting: boolean, n: number) => b.admin`
    insert into despatch.receipts (tenant_id, account_id, provider_message_id, waiting, apply_at)
    select ${tenantId}, ${accountId}::uuid, n::text, ${waiting}, now() from generate_series(1, ${n}::int) n`;
  for (const waiting of [true, false]) {
    await addReceipts(b.tenant.tenantId, b.accountId, waiting, ROWS);
    await addReceipts(other.tenantId, otherAccount, waiting, many);
  }
  await addReceipts(b.tenant.tenantId, null, false, ROWS);
  const addKeys = (tenantId: string, n: number) => b.admin`
    insert into despatch.idempotency_keys (scope, generation, tenant_id, fingerprint)
    select uuid_send(gen_random_uuid()), current_date, ${tenantId}, '' from generate_series(1, ${n}::int)`;
  await addKeys(b.tenant.tenantId, ROWS);
  await addKeys(other.tenantId, many);
  await b.admin`
    insert into despatch.audit_log (tenant_id, actor, action, target)
    select ${b.tenant.tenantId}, 'key:k', 'key.create', 'key:k' from generate_series(1, ${ROWS}::int)`;
  await b.admin`analyze despatch.receipts, despatch.idempotency_keys`;
  await b.begin();

  const read = await b.admin.begin(async (tx) => {
    for (let outcome = 'deleted'; outcome === 'deleted';) {
      const [step] = await tx<
        { outcome: string }[]
      >`select outcome from despatch.purge_some(${b.owned.slug}, ${b.owned.uid}, ${AT_ONCE})`;
      outcome = step?.outcome ?? 'none';
    }
    return tx<{ name: string; rows: number }[]>`
      select case when relname ~ '^idem' then 'keys' else 'receipts' end as name, sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows
      from pg_stat_xact_user_tables where relname ~ '^(receipts$|idempotency_keys_)' group by 1`;
  });
  const rows = Object.fromEntries(read.map((one) => [one.name, one.rows]));
  expect(rows['receipts']).toBeLessThan(10 * 3 * ROWS);
  // One read to find the rows, and one to verify that none is left.
  expect(rows['keys']).toBeLessThanOrEqual(3 * (many + ROWS));
  const left = await b.leftovers();
  for (const table of ['receipts', 'idempotency_keys', 'audit_log']) expect(left).not.toHaveProperty(table);
});

test('number_changes adds no feed rows for a tenant that is being purged', async () => {
  await using b = await setup();
  await acceptBatch(b.api, [acceptRow(b.tenant)]);
  await b.begin();
  await b.number();
  expect(await b.admin`select from despatch.feed`).toHaveLength(0);
});

test.each([
  {
    what: 'an account',
    change: (id: string) => `update despatch.provider_accounts set status = 'invalid' where id = '${id}'`,
  },
  {
    what: 'an endpoint',
    change: (id: string) => `update despatch.webhook_endpoints set status = 'failing' where id = '${id}'`,
  },
])('a purge also deletes the event of $what whose status changes concurrently', async ({ what, change }) => {
  await using b = await setup();
  const id = what === 'an account' ? b.accountId : await b.endpoint();
  await b.begin();
  let purged: Promise<boolean> | undefined;
  await b.admin.begin(async (tx) => {
    await tx.unsafe(change(id));
    purged = b.purge().then(() => b.store.endPurge(b.owned));
    await expect.poll(() => lockWaits(b.admin)).toHaveLength(1);
  });
  expect(await purged).toBe(true);
  expect(await b.leftovers()).toEqual({});
});

test('a purge ends although the record of a message that was being sent is gone', async () => {
  await using b = await setup();
  const row = acceptRow(b.tenant);
  await acceptBatch(b.api, [row]);
  await b.admin`update despatch.live_messages set status = 'sending', attempt = 1, lease_until = now() + interval '1 minute'`;
  await b.admin`delete from despatch.messages where seq = ${row.seq}`;
  await b.begin();
  await b.purge();
  expect(await b.store.endPurge(b.owned)).toBe(true);
  expect(await b.leftovers()).toEqual({});
});

test('the last step of a purge runs with a statement timeout of 5 minutes', async () => {
  await using b = await setup();
  await b.admin`create table public.seen (timeout text)`;
  await b.admin`grant insert on public.seen to public`;
  await b.admin`create function public.note() returns trigger language plpgsql as
    $$ begin insert into public.seen values (current_setting('statement_timeout')); return old; end $$`;
  await b.admin`create trigger note before delete on despatch.tenants for each row execute function public.note()`;
  await b.begin();
  await b.purge();
  await b.store.endPurge(b.owned);
  expect(await b.admin`select timeout from public.seen`).toEqual([{ timeout: '5min' }]);
});

test('a purge deletes nothing of another tenant whose message got the same number after a failover', async () => {
  await using b = await setup();
  const other = await seedTenant(b.admin);
  await seedAccount(b.admin, other.tenantId);
  const row = acceptRow(b.tenant);
  await acceptBatch(b.api, [row]);
  await b.admin`delete from despatch.live_messages`;
  // A plan with a longer retention, so that the place is another one.
  const theirs = acceptRow(other, { seq: row.seq, retention_days: 60 });
  expect(theirs.purge_on).not.toBe(row.purge_on);
  await acceptBatch(b.api, [theirs]);
  const { seq, purge_on } = theirs;
  for (const table of ['awaited_receipts', 'failover_waits'])
    await b.admin`insert into ${b.admin(`despatch.${table}`)} (seq, purge_on, tenant_id, due_at)
      values (${seq}, ${purge_on}, ${other.tenantId}, now())`;
  await b.admin`insert into despatch.lookups (seq, purge_on, tenant_id, account_id, since, ask_at, until_at)
    values (${seq}, ${purge_on}, ${other.tenantId}, gen_random_uuid(), now(), now(), now())`;
  await b.admin`
    insert into despatch.message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at, updated_at)
    values (${seq}, ${purge_on}, ${other.tenantId}, 'sent', 1, false, false, now(), now())`;
  await b.admin`
    insert into despatch.attempt_log (message_seq, purge_on, number, tenant_id, provider, worker, outcome, started_at, ended_at,
      message_status)
    values (${seq}, ${purge_on}, 1, ${other.tenantId}, 'twilio', 1, 'rejected_transient', now(), now(), 'deferred')`;
  await b.admin`
    insert into despatch.event_log (message_seq, purge_on, tenant_id, type, source, at)
    values (${seq}, ${purge_on}, ${other.tenantId}, 'message.held', 'system', now())`;
  await b.admin`insert into despatch.message_contents (message_seq, purge_on, tenant_id, content)
    values (${seq}, ${purge_on}, ${other.tenantId}, '{}')`;
  const before = await leftoversOf(b.admin, other.tenantId);
  await b.begin();

  expect(await b.purge()).toContain(1);

  expect(await b.admin`select from despatch.messages where tenant_id = ${b.tenant.tenantId}`).toHaveLength(0);
  expect(await leftoversOf(b.admin, other.tenantId)).toEqual(before);
});
