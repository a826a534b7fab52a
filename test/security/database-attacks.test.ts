import { randomBytes } from 'node:crypto';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import { testDatabase, type TestDatabase } from '#test/support/servers.ts';

const ROLES = ['api', 'worker', 'controller'] as const;
type RoleName = (typeof ROLES)[number];
type Estate = SeededTenant & { readonly accountId: string; readonly mark: string };

/** The functions and the roles that may execute each. A function that is missing here fails the test below. */
const CALLABLE: Readonly<Record<string, readonly RoleName[]>> = {
  current_tenant: ['api', 'worker', 'controller'],
  schema_version: ['api', 'worker', 'controller'],
  has_functions: ['api', 'worker', 'controller'],
  message_id_key: ['api', 'worker'],
  same_pepper: ['api', 'worker'],
  reserve_message_seqs: ['api'],
  accept: ['api'],
  accept_batch: ['api'],
  store_content: ['api'],
  copy_content: ['api'],
  forget_contents: ['api'],
  take_rate: ['api'],
  claim_idempotency: ['api'],
  store_idempotent_response: ['api'],
  find_tenant: ['api'],
  find_callers: ['api'],
  routes_of: ['worker'],
  delayed_lanes: ['worker'],
  find_delayed: ['worker'],
  failover_facts: ['worker'],
  read_events: ['api'],
  events_of_day: ['api'],
  receipt_accounts: ['api'],
  public_webhook_keys: ['api'],
  store_receipt_calls: ['api'],
  touch_api_keys: ['api'],
  sign_user_in: ['api'],
  membership: ['api'],
  memberships: ['api'],
  forget_named_user: ['api'],
  invite_user: ['api'],
  count_created_tenants: ['api'],
  create_tenant: ['api'],
  list_tenants: ['api'],
  tenants_with_usage: ['api'],
  usage_of_tenants: ['api'],
  set_suspension: ['api'],
  lift_brake: ['api'],
  begin_deletion: ['api'],
  set_plan: ['api'],
  cancel_messages: ['api'],
  may_move_endpoint: ['api'],
  may_move_account: ['api'],
  erase_content: ['api'],
  lock_schedule: ['api'],
  store_schedule: ['api'],
  advance_test_clock: ['api'],
  wake_waiting: ['api'],
  replace_account_secret: ['api'],
  replace_endpoint_secret: ['api'],
  redeliver_event: ['api'],
  replay_event: ['api'],
  recover_deliveries: ['api'],
  replace_api_key_secret: ['api'],
  claim: ['worker'],
  claim_due: ['worker'],
  claimed_by: ['worker'],
  claimed_in: ['worker'],
  find_waiting: ['worker'],
  find_scheduled_due: ['worker'],
  find_waiting_due: ['worker'],
  lost: ['worker'],
  due_lanes: ['worker'],
  due_seqs: ['worker'],
  accounts_of: ['worker'],
  assign_accounts: ['worker'],
  move_messages: ['worker'],
  end_outlived: ['worker'],
  load_content: ['worker'],
  settle_contents: ['worker'],
  release_deliveries: ['worker'],
  complete: ['worker'],
  lock_receipts: ['worker'],
  record_receipts: ['worker'],
  recipients_of: ['worker'],
  suppress_recipients: ['worker'],
  claim_receipt_calls: ['worker'],
  settle_receipt_calls: ['worker'],
  oldest_receipt_seconds: ['worker'],
  expire_receipts: ['worker'],
  take_lookups: ['worker'],
  take_silent: ['worker'],
  fail_over_silent: ['worker'],
  settle_lookups: ['worker'],
  resume_lookups: ['worker'],
  hold_tenant: ['worker'],
  release_tenant: ['worker'],
  load_accounts: ['worker'],
  note_account_result: ['worker'],
  note_account_health: ['worker'],
  take_verifications: ['worker'],
  note_verification: ['worker'],
  number_changes: ['worker'],
  count_usage: ['worker'],
  note_hits: ['worker'],
  apply_brakes: ['worker'],
  oldest_change_seconds: ['worker'],
  oldest_usage_seconds: ['worker'],
  endpoints_to_match: ['worker'],
  endpoints_behind: ['worker'],
  tenants_behind: ['worker'],
  read_feeds: ['worker'],
  append_matches: ['worker'],
  load_endpoints: ['worker'],
  endpoint_versions: ['worker'],
  claim_deliveries: ['worker'],
  read_deliveries: ['worker'],
  complete_deliveries: ['worker'],
  lock_endpoint_health: ['worker'],
  store_endpoint_health: ['worker'],
  take_endpoint_tests: ['worker'],
  store_endpoint_test: ['worker'],
  count_endpoints: ['worker'],
  oldest_due_seconds: ['worker'],
  oldest_unmatched: ['worker'],
  tenant_limits_of: ['worker'],
  message_totals: ['worker'],
  count_brakes: ['worker'],
  partition_tasks: ['worker'],
  partitions_due: ['worker'],
  oldest_deletion_seconds: ['worker'],
  make_partition: ['worker'],
  drop_partition: ['worker'],
  unsettled_days: ['worker'],
  purged_tables: ['worker'],
  purge_rows: ['worker'],
  forget_replaced_secrets: ['worker'],
  managed_tenant: ['controller'],
  apply_tenant: ['controller'],
  retain_tenant: ['controller'],
  tenants_to_purge: ['controller'],
  begin_purge: ['controller'],
  purge_some: ['controller'],
  end_purge: ['controller'],
  outdated_ciphertexts: ['controller'],
  replace_ciphertext: ['controller'],
};
/** Sensitive columns, each with the only functions that return it and only to the role that needs it. */
const SENSITIVE: Readonly<Record<string, readonly string[]>> = {
  ciphertext: ['load_accounts', 'outdated_ciphertexts'],
  previous_ciphertext: ['load_accounts'],
  secret: ['load_endpoints'],
  previous_secret: ['load_endpoints'],
  client_certificate: ['load_endpoints'],
  key_ciphertext: ['load_endpoints'],
  secret_hash: ['find_callers'],
  previous_secret_hash: ['find_callers'],
  former_secret_hashes: ['find_callers'],
};
const DENIED = '42501';

let database: TestDatabase;
let admin: Sql;
let roles: Record<RoleName, Sql>;
let a: Estate;
let b: Estate;

beforeAll(async () => {
  database = await testDatabase();
  admin = database.open('admin', 1);
  roles = {
    api: database.open('api', 1),
    worker: database.open('worker', 1),
    controller: database.open('controller', 1),
  };
  [a, b] = [await settle(), await settle()];
});
afterAll(() => database[Symbol.asyncDispose]());

async function settle(): Promise<Estate> {
  const mark = `mark${randomBytes(8).toString('hex')}`;
  const tenant = await seedTenant(admin);
  const accountId = await seedAccount(admin, tenant.tenantId);
  await admin`update provider_accounts set label = ${mark}, ciphertext = ${mark} where id = ${accountId}`;
  await admin`update api_keys set name = ${mark} where id = ${tenant.apiKeyId}`;
  await admin`update tenants set name = ${mark} where id = ${tenant.tenantId}`;
  return { ...tenant, accountId, mark };
}

/** Runs `work` in a transaction with tenant A's setting, then rolls it back. */
async function attempt<T>(sql: Sql, work: (tx: TransactionSql) => Promise<T>): Promise<T | { code: string }> {
  const undo = new Error('undone');
  let result: T | { code: string } | undefined;
  await sql
    .begin(async (tx) => {
      await tx`select set_config('app.tenant', ${a.tenantId}, true)`;
      result = await work(tx as TransactionSql);
      throw undo;
    })
    .catch((error: unknown) => {
      if (error !== undo) result = { code: (error as { code?: string }).code ?? String(error) };
    });
  return result as T | { code: string };
}

describe('functions', () => {
  test('each is executable only by the roles that need it', async () => {
    const found = await admin<{ name: string; callers: RoleName[] }[]>`
      select p.proname as name,
        array(select r from unnest(array['api', 'worker', 'controller']) r
          where has_function_privilege('despatch_' || r, p.oid, 'execute')) as callers
      from pg_proc p where p.pronamespace = 'despatch'::regnamespace`;
    const callable = Object.fromEntries(
      found.filter(({ callers }) => callers.length > 0).map(({ name, callers }) => [name, callers]),
    );
    expect(callable).toEqual(CALLABLE);
  });

  test('each security definer has a search_path of its own schema first and pg_temp last', async () => {
    const found = await admin<{ name: string; config: string[] | null; owner: string }[]>`
      select p.proname as name, p.proconfig as config, p.proowner::regrole::text as owner from pg_proc p
      where p.pronamespace = 'despatch'::regnamespace and p.prosecdef`;
    expect(found.length).toBeGreaterThan(30);
    const loose = found.filter(({ config }) => !config?.includes('search_path=despatch, pg_temp'));
    expect(loose).toEqual([]);
    expect([...new Set(found.map(({ owner }) => owner))]).toEqual(['despatch_definer']);
  });

  test('their owner cannot log in, and no role bypasses row-level security', async () => {
    const found = await admin<{ name: string; login: boolean; above: boolean }[]>`
      select rolname as name, rolcanlogin as login, rolsuper or rolbypassrls or rolcreaterole or rolcreatedb as above
      from pg_roles where rolname like 'despatch\\_%' order by 1`;
    expect(found).toEqual([
      { name: 'despatch_api', login: true, above: false },
      { name: 'despatch_controller', login: true, above: false },
      { name: 'despatch_definer', login: false, above: false },
      { name: 'despatch_worker', login: true, above: false },
    ]);
  });

  test('only the listed ones return a ciphertext or a hash', async () => {
    const giving = await admin<{ column: string; name: string }[]>`
      select arg as column, p.proname as name from pg_proc p, unnest(p.proargnames, p.proargmodes) u (arg, mode)
      where p.pronamespace = 'despatch'::regnamespace and u.mode in ('t', 'o', 'b') and arg = any (${Object.keys(SENSITIVE)})
      union all
      select t.attname, p.proname from pg_proc p join pg_type y on y.oid = p.prorettype
      join pg_attribute t on t.attrelid = y.typrelid
      where p.pronamespace = 'despatch'::regnamespace and p.prosecdef and t.attname = any (${Object.keys(SENSITIVE)})`;
    const byColumn = Object.fromEntries(
      Object.keys(SENSITIVE).map((column) => [
        column,
        giving.filter((one) => one.column === column).map(({ name }) => name),
      ]),
    );
    expect(byColumn).toEqual(SENSITIVE);
  });
});

test('every view is a security_invoker, so that the policies apply to its caller', async () => {
  const views = await admin<{ name: string; options: string[] | null }[]>`
    select relname as name, reloptions as options from pg_class
    where relnamespace = 'despatch'::regnamespace and relkind in ('v', 'm')`;
  expect(views.length).toBeGreaterThan(0);
  expect(
    views.filter(({ options }) => !/^security_invoker=(?:true|on)$/.test(options?.join() ?? '')),
  ).toEqual([]);
});

describe.each(ROLES)('the %s', (role) => {
  test('has no select privilege on columns with ciphertexts and hashes', async () => {
    const readable = await admin<{ at: string }[]>`
      select c.relname || '.' || t.attname as at from pg_class c join pg_attribute t on t.attrelid = c.oid
      where c.relnamespace = 'despatch'::regnamespace and c.relkind in ('r', 'p')
        and t.attname = any (${[...Object.keys(SENSITIVE), 'nonce', 'fingerprint']})
        and has_column_privilege(${`despatch_${role}`}, c.oid, t.attnum, 'select')`;
    expect(readable.map(({ at }) => at)).toEqual([]);
  });

  test.each([
    ['becoming the owner', 'set role despatch_definer'],
    ['becoming another user', 'set session authorization postgres'],
    ['making objects in the schema', 'create table despatch.mine (x integer)'],
    [
      'making functions in the schema',
      'create function despatch.mine() returns integer language sql as $$ select 1 $$',
    ],
    ['making objects in the public schema', 'create table public.mine (x integer)'],
    ['making a schema', 'create schema mine'],
    [
      'replacing a function',
      'create or replace function despatch.current_tenant() returns uuid language sql as $$ select null::uuid $$',
    ],
    ['disabling row-level security', 'alter table despatch.provider_accounts disable row level security'],
    ['adding a policy', 'create policy all_of_it on despatch.provider_accounts using (true)'],
    ['granting itself a role', `grant despatch_definer to despatch_${role}`],
    ['running a program', `copy (select 1) to program 'true'`],
    ['reading a file', `select pg_read_file('postgresql.conf')`],
    ['reading the statistics of values', 'select * from pg_statistic'],
    ['reading passwords', 'select rolpassword from pg_authid'],
    ['running triggers as a replica', `set session_replication_role = 'replica'`],
    ['emptying a table', 'truncate despatch.messages'],
  ])('is refused %s', async (_, statement) => {
    const answer = await attempt(roles[role], (tx) => tx.unsafe(statement));
    expect(['42501', '42809']).toContain((answer as { code: string }).code);
  });

  test('sees no values of tenants in pg_stats', async () => {
    await admin`analyze`;
    const seen = await roles[
      role
    ]`select * from pg_stats where schemaname = 'despatch' and tablename not in ('migrations', 'applied_functions', 'function_releases')`;
    expect(JSON.stringify(seen)).not.toContain(b.mark);
    expect(seen).toEqual([]);
  });

  test('does not see the queries of other sessions', async () => {
    const asked = await roles[role]<{ query: string }[]>`
      select query from pg_stat_activity where usename is distinct from current_user`;
    expect(asked.filter(({ query }) => query !== '' && query !== '<insufficient privilege>')).toEqual([]);
  });
});

describe('tenants', () => {
  test.each(['', ' ', '*', 'x', "' or true --", '00000000-0000-0000-0000-000000000000', '{}', 'null'])(
    'a forged app.tenant setting %o shows no row',
    async (setting) => {
      const seen = await attempt(roles.api, async (tx) => {
        await tx`select set_config('app.tenant', ${setting}, true)`;
        return tx`select id from provider_accounts`;
      });
      if (Array.isArray(seen)) expect(seen).toEqual([]);
      else expect(seen).toEqual({ code: '22P02' });
    },
  );

  test.each(['worker', 'controller'] as const)(
    'an app.tenant setting forged by the %s gives access to no table',
    async (role) => {
      const seen = await attempt(roles[role], (tx) => tx`select id from provider_accounts`);
      expect(seen).toEqual({ code: DENIED });
    },
  );

  test.each([
    'select id from provider_accounts where pg_temp.leak(label)',
    'select id from provider_accounts where pg_temp.leak(label) order by label',
    'select p.id from provider_accounts p join tenants t on pg_temp.leak(p.label || t.name)',
    'select name from api_keys where pg_temp.leak(name)',
    "select id from tenants where pg_temp.leak(name) and id <> '00000000-0000-0000-0000-000000000000'",
  ])("a caller's function in a query gets no row of another tenant: %s", async (query) => {
    const shown: string[] = [];
    await using spy = disposable(
      postgres(database.apiUrl, {
        max: 1,
        onnotice: ({ message }) => void shown.push(message ?? ''),
        connection: { search_path: 'despatch' },
      }),
    );
    await attempt(spy.sql, async (tx) => {
      await tx.unsafe(`create function pg_temp.leak(value text) returns boolean language plpgsql cost 0.0000001
        as $$ begin raise notice '%', value; return true; end $$`);
      await tx.unsafe(query);
    });
    expect(shown.join()).toContain(a.mark);
    expect(shown.join()).not.toContain(b.mark);
  });

  test('an error message contains no value of another tenant', async () => {
    const message = await roles.api
      .begin(async (tx) => {
        await tx`select set_config('app.tenant', ${a.tenantId}, true)`;
        await tx.unsafe('select (label)::integer from provider_accounts');
      })
      .catch((error: unknown) => String(error));
    expect(message).toContain(a.mark);
    expect(message).not.toContain(b.mark);
  });

  test("temporary tables and functions of the caller do not replace the schema's", async () => {
    const answers = await attempt(roles.api, async (tx) => {
      await tx.unsafe(`create temporary table tenants as select * from despatch.tenants limit 0`);
      await tx.unsafe(`create temporary table provider_accounts (id uuid, tenant_id uuid, label text)`);
      await tx.unsafe(
        `create function pg_temp.current_tenant() returns uuid language sql as $$ select '${b.tenantId}'::uuid $$`,
      );
      await tx.unsafe('set local search_path = pg_temp, despatch, pg_catalog');
      return [
        (await tx<{ name: string }[]>`select name from despatch.find_tenant(${b.tenantId}, null)`).map(
          ({ name }) => name,
        ),
        await tx`select * from despatch.replace_account_secret(${b.tenantId}, ${b.accountId}, 'stolen', '1 minute')`,
        (await tx`select id from despatch.provider_accounts`).map(({ id }) => id as string),
      ];
    });
    expect(answers).toEqual([[b.mark], [], [a.accountId]]);
  });

  test.each([
    ['suspend', (id: string) => ['select * from set_suspension($1, $2, $3)', [id, 'abuse', 'x']] as const],
    ['resume', (id: string) => ['select * from set_suspension($1, $2, $3)', [id, null, 'x']] as const],
    ['lift a brake of', (id: string) => ['select * from lift_brake($1, $2)', [id, null]] as const],
    ['delete', (id: string) => ['select begin_deletion($1)', [id]] as const],
    ['move the plan of', (id: string) => ['select set_plan($1, $2, $3)', [id, 'enterprise', '{}']] as const],
  ])("the api cannot %s a tenant that is not the transaction's", async (_, call) => {
    await admin`insert into brakes (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at)
      values (${b.tenantId}, 'sms', 'held', 'complaint_rate', 0.1, 0.01, now(), 1, now()) on conflict do nothing`;
    const facts = () =>
      admin`select t.*, l.*, (select json_agg(k order by k.channel) from brakes k where k.tenant_id = t.id) as brakes
        from tenants t left join tenant_limits l on l.tenant_id = t.id where t.id = ${b.tenantId}`;
    const before = await facts();
    const [query, values] = call(b.tenantId);
    await roles.api
      .begin(async (tx) => {
        await tx`select set_config('app.tenant', ${a.tenantId}, true)`;
        await tx.unsafe(query, [...values]);
      })
      .catch(() => undefined);
    await roles.api.unsafe(query, [...values]).catch(() => undefined);
    expect(await facts()).toEqual(before);
  });

  test("the api cannot wake messages that wait for another tenant's provider account", async () => {
    await admin`insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, reason, priority, channel, test,
        pinned, expires_at, updated_at)
      values (1, '2999-01-01', ${b.tenantId}, ${b.accountId}, '2998-01-01', 'deferred', 'provider_not_ready', 1, 'sms', false,
        false, now() + interval '1 day', now())`;
    const dueAt = () => admin`select due_at from live_messages where seq = 1`;
    const before = await dueAt();
    const wake = (tenantId: string | null) =>
      roles.api.begin(async (tx) => {
        if (tenantId !== null) await tx`select set_config('app.tenant', ${tenantId}, true)`;
        await tx`select wake_waiting(${b.accountId})`;
      });
    await wake(a.tenantId);
    await wake(null);
    expect(await dueAt()).toEqual(before);
    await wake(b.tenantId);
    expect(await dueAt()).not.toEqual(before);
  });
});

function disposable(sql: Sql): AsyncDisposable & { readonly sql: Sql } {
  return { sql, [Symbol.asyncDispose]: () => sql.end() };
}
