import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { openPostgres, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { countApiKeys, scanApiKeys } from '#core/store/tenants/api-keys.ts';
import { scanAudit } from '#core/store/tenants/audit-log.ts';
import { listMembers } from '#core/store/tenants/members.ts';
import { countAccounts, findAccount, listAccounts } from '#core/store/accounts/provider-accounts.ts';
import { lockTenant, readLimits } from '#core/store/tenants/tenants.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import { testDatabase, type TestDatabase } from '#test/support/servers.ts';
import { plantSuppression } from '#test/support/suppress.ts';

/** Tables with bookkeeping of the schema itself. They hold no tenant's data. */
const NO_TENANT = new Set([
  'migrations',
  'applied_functions',
  'function_releases',
  'message_id_key',
  'pepper_fingerprints',
]);
/** Tables whose rows reference another row instead of a tenant. No service may access them directly. */
const KEYED_OTHERWISE = new Set([
  'counter_locks',
  'rate_windows',
  'account_rates',
  'lookup_turns',
  'users',
  'gone_resources',
  'workers',
  'changes',
  'feed_passes',
  'usage_moves',
  'usage_passes',
  'outlived_days',
]);
const DENIED = '42501';

type Table = { readonly name: string; readonly isPartition: boolean };

let database: TestDatabase;
let admin: Sql;
let api: Sql;
let worker: Sql;
let controller: Sql;
let tables: Table[];
let a: SeededTenant & { accountId: string };
let b: SeededTenant & { accountId: string };

beforeAll(async () => {
  database = await testDatabase();
  admin = database.open('admin', 2);
  [api, worker, controller] = [
    database.open('api', 2),
    database.open('worker', 2),
    database.open('controller', 2),
  ];
  tables = await admin<Table[]>`
    select relname as name, relispartition as "isPartition" from pg_class
    where relnamespace = 'despatch'::regnamespace and relkind in ('r', 'p') order by relname`;
  a = await seedEverything();
  b = await seedEverything();
});

afterAll(() => database[Symbol.asyncDispose]());

/** Seeds a tenant that has at least one row in every table. */
async function seedEverything(): Promise<SeededTenant & { accountId: string }> {
  const tenant = await seedTenant(admin);
  const { tenantId } = tenant;
  const accountId = await seedAccount(admin, tenantId, { ratePerSecond: 5 });
  const [user] = await admin<{ id: string }[]>`
    insert into users (issuer, subject, email) values ('https://issuer.test', ${randomUUID()}, 'someone@example.org') returning id`;
  await admin`insert into members (tenant_id, user_id, role) values (${tenantId}, ${user?.id ?? ''}, 'owner')`;
  await admin`insert into audit_log (tenant_id, actor, action, target) values (${tenantId}, 'x', 'provider.created', ${accountId})`;
  const scope = randomUUID().replaceAll('-', '').repeat(2);
  await admin`insert into api_key_uses values (${tenant.apiKeyId}, ${tenantId}, now())`;
  const row = acceptRow(tenant, { scope, fingerprint: scope });
  const [verdict] = await acceptBatch(api, [row]);
  expect(verdict?.verdict).toBe('accepted');
  const { seq, purge_on } = row;
  await admin`insert into message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at, updated_at)
    values (${seq}, ${purge_on}, ${tenantId}, 'sent', 1, false, false, now(), now())`;
  await admin`insert into outlived_days select ${purge_on}::date + n, now() from generate_series(0, 1) n on conflict do nothing`;
  await admin`insert into awaited_receipts values (${seq}, ${purge_on}, ${tenantId}, now())`;
  await admin`insert into lookups values (${seq}, ${purge_on}, ${tenantId}, ${accountId}, now(), now(), now())`;
  await admin`insert into failover_waits values (${seq}, ${purge_on}, ${tenantId}, now())`;
  await admin`insert into lookup_turns values (${accountId}, 'twilio', now(), now())`;
  await admin`insert into attempt_log (message_seq, purge_on, number, tenant_id, provider, worker, outcome, started_at, ended_at, message_status)
    values (${seq}, ${purge_on}, 1, ${tenantId}, 'simulator-sms', 0, 'accepted', now(), now(), 'sent')`;
  await admin`insert into event_log (message_seq, purge_on, tenant_id, type, source, at)
    values (${seq}, ${purge_on}, ${tenantId}, 'message.sent', 'worker', now())`;
  await admin`insert into receipts (tenant_id, message_seq, purge_on, attempt, receipt, apply_at)
    values (${tenantId}, ${seq}, ${purge_on}, 1, 'sent', now())`;
  await admin`insert into receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body, received_at, due_at)
    values (${tenantId}, ${accountId}, 'GET', 1, '', '{}', '', now(), now())`;
  await admin`insert into message_contents values (${seq}, ${purge_on}, ${tenantId}, '{}')`;
  await admin`insert into unsettled_contents values (${seq}, ${purge_on}, ${tenantId})`;
  await admin`insert into account_rates values (${accountId}, '{0}', '{1}')`;
  await admin`insert into routes (tenant_id, channel, version, strategy, steps, failover_on)
    values (${tenantId}, 'sms', 1, 'priority', '[]', '{}')`;
  await plantSuppression(admin, tenantId);
  await admin`insert into gone_resources (uid) values (${tenantId})`;
  await admin`insert into workers (name) values (${tenantId})`;
  await admin`select note_tenant_event(${tenantId}, 'tenant.resumed', '{}')`;
  await admin`select number_changes(100, 0)`;
  await admin`select count_usage(100, 0)`;
  // `count_usage` has already counted the moves of the tenant that was seeded before.
  await admin`insert into usage_moves (at, purge_on, became, seqs)
    select now(), ${purge_on}, 'sent', ${[seq]} from generate_series(1, 2)`;
  await admin`insert into usage_times values (${tenantId}, 'day', now(), 'sms', '', 'provider', '{1}')`;
  await admin`insert into account_counts values (${tenantId}, ${accountId}, now(), 1, 0, 0, 1, 0, '{1}')`;
  await admin`insert into brakes (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at)
    values (${tenantId}, 'push', 'slowed', 'complaint_rate', 0.004, 0.003, now(), 1, now())`;
  await admin`insert into final_stretches values (${tenantId}, 'push', 0, 1, 0, 0)`;
  await admin`insert into final_hours values (${tenantId}, 'push', now(), 1, 1, 0, 0)`;
  await admin`insert into feed_heads values (${tenantId}, 0, now())`;
  const [endpoint] = await admin<{ id: string }[]>`
    insert into webhook_endpoints (tenant_id, url, event_types, secret, matched_to)
    values (${tenantId}, 'https://hooks.test/', '{*}', 'vault:v1:x', 0) returning id`;
  const endpointId = endpoint?.id ?? '';
  await admin`insert into webhook_keys (tenant_id, public_key, ciphertext) values (${tenantId}, 'x', 'vault:v1:x')`;
  await admin`insert into endpoint_feed values (1, 1, 1, now(), ${endpointId}, ${tenantId}, ${purge_on}, ${[seq]}, '{0}')`;
  await admin`insert into endpoint_heads values (${endpointId}, 2, 1, now(), ${tenantId})`;
  await admin`insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
    values (${endpointId}, ${tenantId}, 1, 1, ${purge_on}, now())`;
  await admin`insert into delivery_attempts (endpoint_id, seq, attempt, purge_on, tenant_id, at, duration_ms, succeeded)
    values (${endpointId}, 1, 1, ${purge_on}, ${tenantId}, now(), 1, true)`;
  await admin`insert into endpoint_tests (endpoint_id, tenant_id) values (${endpointId}, ${tenantId})`;
  return { ...tenant, accountId };
}

/** Counts the rows of other tenants, and all rows, that `sql` can see in a table; null where access is denied. */
async function visible(
  sql: Sql,
  table: string,
  setting: string | undefined,
): Promise<{ foreign: number; all: number } | null> {
  const column = table === 'tenants' ? 'id' : 'tenant_id';
  try {
    return await sql.begin(async (tx) => {
      if (setting !== undefined) await tx`select set_config('app.tenant', ${setting}, true)`;
      const [row] = KEYED_OTHERWISE.has(table)
        ? await tx<{ all: number }[]>`select count(*)::integer as all from ${tx(table)}`
        : await tx<{ all: number; foreign: number }[]>`
            select count(*)::integer as all,
              (count(*) filter (where ${tx(column)} is distinct from ${setting ?? null}::uuid))::integer as foreign
            from ${tx(table)}`;
      return { foreign: 0, all: 0, ...row };
    });
  } catch (error) {
    if ((error as { code?: string }).code === DENIED) return null;
    throw error;
  }
}

const parents = (): string[] =>
  tables.filter((table) => !table.isPartition && !NO_TENANT.has(table.name)).map((table) => table.name);

/** Returns the tables for which the predicate holds. */
async function offending(
  names: readonly string[],
  isBad: (name: string) => Promise<boolean>,
): Promise<string[]> {
  const bad: string[] = [];
  for (const name of names) if (await isBad(name)) bad.push(name);
  return bad;
}

describe('the database keeps tenants apart', () => {
  test('every table has rows of both tenants here, so that no table escapes these tests', async () => {
    const empty = await offending(parents(), async (table) => {
      const column = table === 'tenants' ? 'id' : 'tenant_id';
      const [row] = KEYED_OTHERWISE.has(table)
        ? await admin<{ n: number }[]>`select count(*)::integer as n from ${admin(table)}`
        : await admin<{ n: number }[]>`
            select count(distinct ${admin(column)})::integer as n from ${admin(table)}
            where ${admin(column)} in (${a.tenantId}, ${b.tenantId})`;
      return (row?.n ?? 0) < 2;
    });
    expect(empty).toEqual([]);
  });

  test('row-level security is enabled and forced on every table and partition', async () => {
    const open = await admin<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'despatch'::regnamespace and relkind in ('r', 'p')
        and not (relrowsecurity and relforcerowsecurity)`;
    expect(open.map(({ name }) => name).filter((name) => !NO_TENANT.has(name))).toEqual([]);
  });

  test('without a tenant the api sees no row of any table', async () => {
    const open = await offending(parents(), async (table) => {
      const seen = await visible(api, table, undefined);
      return seen !== null && seen.all > 0;
    });
    expect(open).toEqual([]);
  });

  test("with a tenant the api sees that tenant's rows and no others", async () => {
    const looked: string[] = [];
    const open = await offending(parents(), async (table) => {
      const seen = await visible(api, table, a.tenantId);
      if (seen === null) return false;
      looked.push(table);
      return seen.foreign > 0 || seen.all === 0;
    });
    expect(open).toEqual([]);
    expect(looked).toEqual(
      expect.arrayContaining(['api_keys', 'messages', 'provider_accounts', 'tenants', 'users']),
    );
    expect(await visible(api, 'users', a.tenantId)).toMatchObject({ all: 1 });
  });

  test('the api cannot bypass the policies of a table through its partitions', async () => {
    const partitions = tables.filter((table) => table.isPartition).map((table) => table.name);
    const open = await offending(partitions, async (name) => (await visible(api, name, b.tenantId)) !== null);
    expect(partitions).not.toEqual([]);
    expect(open).toEqual([]);
  });

  test('the worker and the controller have no privilege on any table', async () => {
    const open = await offending(
      tables.map((table) => table.name).filter((name) => !NO_TENANT.has(name)),
      async (name) =>
        (await visible(worker, name, a.tenantId)) !== null ||
        (await visible(controller, name, a.tenantId)) !== null,
    );
    expect(open).toEqual([]);
  });

  test.each([
    ['provider_accounts', 'ciphertext'],
    ['provider_accounts', 'previous_ciphertext'],
    ['api_keys', 'secret_hash'],
    ['api_keys', 'previous_secret_hash'],
    ['api_keys', 'former_secret_hashes'],
  ])('the api cannot read %s.%s, not even of its tenant', async (table, column) => {
    const read = api.begin(async (tx) => {
      await tx`select set_config('app.tenant', ${a.tenantId}, true)`;
      return tx`select ${tx(column)} from ${tx(table)}`;
    });
    await expect(read).rejects.toMatchObject({ code: DENIED });
  });

  test("the api can neither change nor remove another tenant's row", async () => {
    const counts = await withTenant(api, a.tenantId as TenantId, async (tx) => {
      const writes = [
        await tx`update provider_accounts set label = 'taken' where id = ${b.accountId}`,
        await tx`update api_keys set name = 'taken' where id = ${b.apiKeyId}`,
        await tx`update tenants set name = 'taken' where id = ${b.tenantId}`,
        await tx`update members set role = 'viewer' where tenant_id = ${b.tenantId}`,
        await tx`delete from members where tenant_id = ${b.tenantId}`,
      ];
      return writes.map((write) => write.count);
    });
    expect(counts).toEqual([0, 0, 0, 0, 0]);
  });

  test('the api cannot write a row for another tenant', async () => {
    const write = withTenant(
      api,
      a.tenantId as TenantId,
      (tx) =>
        tx`insert into audit_log (tenant_id, actor, action, target) values (${b.tenantId}, 'x', 'x', 'x')`,
    );
    await expect(write).rejects.toMatchObject({ code: DENIED });
    const move = withTenant(
      api,
      a.tenantId as TenantId,
      (tx) => tx`update provider_accounts set tenant_id = ${b.tenantId} where id = ${a.accountId}`,
    );
    await expect(move).rejects.toMatchObject({ code: DENIED });
  });

  test("functions that replace secrets act for the transaction's tenant alone", async () => {
    const replaced = await withTenant(api, a.tenantId as TenantId, async (tx) => [
      await tx`select * from replace_account_secret(${b.tenantId}, ${b.accountId}, 'stolen', '1 minute')`,
      await tx`select replace_api_key_secret(${b.tenantId}, ${b.apiKeyId}, ${Buffer.alloc(32, 1)}, null) as done`,
    ]);
    expect(replaced).toEqual([[], [{ done: false }]]);
    await api.begin(async (tx) => {
      expect(
        await tx`select * from replace_account_secret(${b.tenantId}, ${b.accountId}, 'stolen', '1 minute')`,
      ).toEqual([]);
    });
  });

  test("contents are stored for the transaction's tenant, and no other tenant can delete them", async () => {
    const seq = 2 ** 41;
    const as = (tenantId: string, work: (tx: TransactionSql) => Promise<unknown>) =>
      withTenant(api, tenantId as TenantId, work);
    const owners = () => admin`select tenant_id from message_contents where message_seq = ${seq}`;
    await as(b.tenantId, (tx) => tx`select store_content(${seq}, '2099-01-05', '{}')`);
    await as(a.tenantId, (tx) => tx`select forget_contents(${[seq]}::bigint[])`);
    await api`select forget_contents(${[seq]}::bigint[])`;
    expect(await owners()).toEqual([{ tenant_id: b.tenantId }]);
    await expect(api`select store_content(${seq + 1}, '2099-01-05', '{}')`).rejects.toThrow(/null value/);
    await as(b.tenantId, (tx) => tx`select forget_contents(${[seq]}::bigint[])`);
    expect(await owners()).toEqual([]);
  });

  test('no function of the schema is executable by public', async () => {
    const open = await admin<{ name: string }[]>`
      select p.proname as name from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) acl
      where p.pronamespace = 'despatch'::regnamespace and acl.grantee = 0`;
    expect(open.map(({ name }) => name)).toEqual([]);
  });

  test('a store call in a transaction without a tenant finds nothing', async () => {
    const tenantId = b.tenantId as TenantId;
    const found = await api.begin(async (tx) => [
      await listAccounts(tenantId, tx, { before: undefined, most: 10 }),
      (await scanApiKeys(tenantId, tx, {}, { before: undefined, rows: 10, most: 10 })).found,
      await listMembers(tenantId, tx, { after: undefined, most: 10 }),
      (await scanAudit(tenantId, tx, {}, { before: undefined, rows: 10, most: 10 })).found,
      await findAccount(tenantId, tx, b.accountId as ProviderAccountId),
      await countAccounts(tenantId, tx, 'sms'),
      await countApiKeys(tenantId, tx),
      await lockTenant(tenantId, tx),
      await readLimits(tenantId, tx),
    ]);
    expect(found).toEqual([[], [], [], [], undefined, 0, 0, undefined, undefined]);
  });

  test("a store call for one tenant in another's transaction finds nothing", async () => {
    const found = await withTenant(api, a.tenantId as TenantId, async (tx) => [
      await listAccounts(b.tenantId as TenantId, tx, { before: undefined, most: 10 }),
      await findAccount(b.tenantId as TenantId, tx, b.accountId as ProviderAccountId),
      await lockTenant(b.tenantId as TenantId, tx),
    ]);
    expect(found).toEqual([[], undefined, undefined]);
  });

  test('the tenant setting of a connection ends with its transaction', async () => {
    await using single = openPostgres({
      url: secret(database.apiUrl),
      poolMax: 1,
      statementTimeoutMs: 10_000,
      applicationName: 'isolation',
    });
    await withTenant(single.sql, a.tenantId as TenantId, (tx) => tx`select 1`);
    expect(await single.sql`select id from provider_accounts`).toEqual([]);
  });
});
