import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { describe, expect, test } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import { openPostgres, type Sql } from '#core/platform/postgres/postgres.ts';
import { loginUrl } from '../../../deploy/servers/login-url.ts';
import { startPostgres } from '../../../deploy/servers/postgres.ts';
import { functionFiles, migrationFiles } from '#core/store/schema/migration-files.ts';
import { acceptBatch, acceptRow, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';
import type { LockWait } from '../../../services/migrate/lock-retries.ts';
import { migrate, MIGRATION_LOCK } from '../../../services/migrate/migrate.ts';

const UP_TO_DATE = { applied: [], functions: [], unused: [], unprepared: [], isNewerKept: false };
const PASSWORDS = { api: 'a', worker: 'w', controller: 'c' };

/** Sets up a database whose owner may create roles but is no superuser, as managed databases have it. */
async function setup() {
  const server = await startPostgres({ durable: false });
  const admin = postgres(server.superuserUrl('postgres'), { max: 1, onnotice: () => undefined });
  await admin.unsafe("create role owner login createrole password 'owner'");
  await admin.unsafe('create database app owner owner');
  await admin.end();
  const databaseUrl = loginUrl(server.superuserUrl('app'), 'owner', 'owner');
  return { databaseUrl, server, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

test('a non-superuser owner can migrate; concurrent runs apply each file once, a repeat none', async () => {
  await using b = await setup();
  const run = () => migrate({ databaseUrl: b.databaseUrl, passwords: PASSWORDS });
  const runs = await Promise.all([run(), run(), run()]);
  expect(runs.flatMap((result) => result.applied)).toEqual(migrationFiles().map((file) => file.name));
  expect(runs.flatMap((result) => result.functions)).toEqual(functionFiles().map((file) => file.name));
  expect(await migrate({ databaseUrl: b.databaseUrl, passwords: {} })).toEqual(UP_TO_DATE);

  const worker = postgres(loginUrl(b.databaseUrl, 'despatch_worker', PASSWORDS.worker), {
    max: 1,
    onnotice: () => undefined,
  });
  await expect(worker`select task from despatch.due_lanes()`).resolves.toEqual([{ task: 'looked' }]);
  await expect(worker`select * from despatch.messages`).rejects.toThrow('permission denied');
  await expect(worker`select * from despatch.partition_tasks()`).resolves.toHaveLength(0);
  await worker.end();
});

test('rows of every table can be deleted under a publication of all tables', async () => {
  await using stores = await setupStores();
  const refusing = await stores.admin`
    select c.relname from pg_class c
    where c.relnamespace = 'despatch'::regnamespace and c.relkind in ('r', 'p') and c.relreplident = 'd'
      and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)`;
  expect(refusing).toEqual([]);
});

test('role passwords do not appear in the server log, even when setting them fails', async () => {
  await using b = await setup();
  const admin = postgres(b.server.superuserUrl('app'), { max: 1, onnotice: () => undefined });
  await admin.unsafe("alter database app set log_statement = 'all'");
  await admin.unsafe('create role despatch_api login');
  const passwords = { api: 'canary-one', worker: 'canary-two' };
  // The owner may not alter a role that it has not created.
  await expect(migrate({ databaseUrl: b.databaseUrl, passwords })).rejects.toThrow('permission denied');
  await admin.unsafe('drop role despatch_api');
  await admin.end();
  await migrate({ databaseUrl: b.databaseUrl, passwords });
  const log = await readFile(join(b.server.dir, 'server.log'), 'utf8');
  expect(log).toContain('alter role despatch_api password');
  expect(log).not.toContain('canary');
  const api = postgres(loginUrl(b.databaseUrl, 'despatch_api', passwords.api), { max: 1 });
  await expect(api`select 1 as one`).resolves.toEqual([{ one: 1 }]);
  await api.end();
});

describe('a migration that waits for a long-held table lock', () => {
  const MIGRATION = {
    version: 9_999,
    name: '9999_test.sql',
    sql: () => 'alter table messages add column remark text',
  };

  /** Holds a lock on the messages, as a backup or a report does, until the caller ends it. */
  async function startReader(admin: Sql): Promise<{ end: () => Promise<void> }> {
    const [reading, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const reader = admin.begin(async (tx) => {
      await tx`select count(*) from messages`;
      reading.resolve();
      await finish.promise;
    });
    await reading.promise;
    return {
      async end() {
        finish.resolve();
        await reader;
      },
    };
  }

  test('does not block acceptance, reports the lock holder, and succeeds after its release', async () => {
    await using b = await setupStores();
    const tenant = await seedTenant(b.admin);
    const reader = await startReader(b.admin);
    const waits: LockWait[] = [];
    const migrating = migrate({
      databaseUrl: b.urls.admin,
      passwords: {},
      migrations: [MIGRATION],
      onWait: (wait) => waits.push(wait),
    });
    let slowest = 0;
    let accepted = 0;
    while ((waits.at(-1)?.tries ?? 0) < 2) {
      const started = performance.now();
      await acceptBatch(b.api, [acceptRow(tenant)]);
      slowest = Math.max(slowest, performance.now() - started);
      accepted += 1;
    }
    expect(accepted).toBeGreaterThan(10);
    expect(slowest).toBeLessThan(10_000);
    expect(waits[0]).toMatchObject({
      name: MIGRATION.name,
      tries: 1,
      holders: [{ application: expect.stringContaining('test'), state: 'idle in transaction' }],
    });
    await reader.end();
    expect(await migrating).toMatchObject({ applied: [MIGRATION.name] });
    await acceptBatch(b.api, [acceptRow(tenant)]);
    const [row] = await b.admin`select count(*) as n, count(remark) as remarks from messages`;
    expect(row).toEqual({ n: accepted + 1, remarks: 0 });
  });

  test('fails after its time limit without a change, and names the lock holder', async () => {
    await using b = await setupStores();
    const reader = await startReader(b.admin);
    const run = () =>
      migrate({
        databaseUrl: b.urls.admin,
        passwords: {},
        migrations: [MIGRATION],
        // The time leaves room for the query that finds the session with the blocking lock.
        lockTimeoutMs: 2_000,
        lockWaitMsMax: 2_500,
      });
    await expect(run()).rejects.toThrow(
      /^9999_test\.sql: no lock within \d+ ms and \d+ tries; held by \d+ \(test@/,
    );
    await reader.end();
    expect(await b.admin`select 1 from migrations where version = 9999`).toHaveLength(0);
    expect(await run()).toMatchObject({ applied: [MIGRATION.name] });
  });

  test('fails without a change if it loses its connection and another run starts meanwhile', async () => {
    await using b = await setupStores();
    const reader = await startReader(b.admin);
    await using other = openPostgres({
      url: secret(b.urls.admin),
      poolMax: 1,
      statementTimeoutMs: 10_000,
      applicationName: 'other-run',
    });
    let overtaken: Promise<unknown> | undefined;
    const overtake = async () => {
      const [lost] = await b.admin<{ pid: number }[]>`
        select pid from pg_locks where locktype = 'advisory' and objsubid = 1 and granted`;
      await b.admin`select pg_terminate_backend(${lost?.pid ?? 0}, 5000)`;
      await other.sql`select pg_advisory_lock(${MIGRATION_LOCK.toString()}::bigint)`;
      await reader.end();
    };
    const migrating = migrate({
      databaseUrl: b.urls.admin,
      passwords: {},
      migrations: [MIGRATION],
      onWait: () => {
        overtaken ??= overtake();
      },
    });
    await expect(migrating).rejects.toThrow('another migration has begun meanwhile');
    await overtaken;
    expect(await b.admin`select 1 from migrations where version = 9999`).toHaveLength(0);
  });
});

test('a migration waits for another one, and reports the connection that holds the lock', async () => {
  await using b = await setupStores();
  await using other = openPostgres({
    url: secret(b.urls.admin),
    poolMax: 1,
    statementTimeoutMs: 10_000,
    applicationName: 'other-run',
  });
  const lock = MIGRATION_LOCK.toString();
  await other.sql`select pg_advisory_lock(${lock}::bigint)`;
  const waits: LockWait[] = [];
  const run = (lockWaitMsMax: number) =>
    migrate({
      databaseUrl: b.urls.admin,
      passwords: {},
      migrations: [],
      lockWaitMsMax,
      onWait: (wait) => waits.push(wait),
    });
  await expect(run(600)).rejects.toThrow(/^another migration: .* held by \d+ \(other-run@/);
  const waiting = run(60_000);
  await expect
    .poll(() => waits[0])
    .toMatchObject({
      name: 'another migration',
      holders: [{ application: expect.stringMatching(/^other-run@/), state: 'idle' }],
    });
  await other.sql`select pg_advisory_unlock(${lock}::bigint)`;
  await waiting;
});
