import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Row } from 'postgres';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { projectRoot } from '#test/support/command.ts';
import { loginUrl } from '../../../deploy/servers/login-url.ts';
import { startPostgres, type PostgresServer } from '../../../deploy/servers/postgres.ts';
import { migrate } from '../../../services/migrate/migrate.ts';

const LOGINS = ['despatch_migrate', 'despatch_api', 'despatch_worker', 'despatch_controller'] as const;
const PASSWORD = 'a-password-of-the-test';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres({ durable: false });
  await asSuperuser('postgres', async (sql) => void (await sql`create database messaging`));
  const script = await readFile(join(projectRoot, 'deploy/postgres/bootstrap.sql'), 'utf8');
  await asSuperuser('messaging', async (sql) => {
    // Twice, because an operator may run it again.
    await sql.unsafe(script);
    await sql.unsafe(script);
    for (const role of LOGINS) await sql.unsafe(`alter role ${role} password '${PASSWORD}'`);
    await sql.unsafe(`create role stranger login password '${PASSWORD}'`);
  });
  await migrate({ databaseUrl: urlOf('despatch_migrate'), passwords: {} });
});
afterAll(() => server[Symbol.asyncDispose]());

test('the rights from bootstrap.sql suffice for the migration, which can run again', async () => {
  const repeated = await migrate({ databaseUrl: urlOf('despatch_migrate'), passwords: {} });
  expect(repeated).toEqual({ applied: [], functions: [], unused: [], unprepared: [], isNewerKept: false });
});

test.each(['despatch_api', 'despatch_worker', 'despatch_controller'])(
  '%s can use the schema, but can neither create objects nor assume the definer role',
  async (role) => {
    const [row] = await as(role, (sql) => sql`select despatch.schema_version() as version`);
    expect(row?.['version']).toBeGreaterThan(0);
    await expect(as(role, (sql) => sql`create table despatch.mine (a int)`)).rejects.toThrow(
      'permission denied',
    );
    await expect(as(role, (sql) => sql`create schema mine`)).rejects.toThrow('permission denied');
    await expect(as(role, (sql) => sql`set role despatch_definer`)).rejects.toThrow('permission denied');
  },
);

test('the migration role cannot create roles or databases, or grant rights', async () => {
  for (const statement of [
    'create role another',
    'create database another',
    'grant despatch_definer to despatch_api',
    'alter role despatch_api password null',
  ]) {
    await expect(as('despatch_migrate', (sql) => sql.unsafe(statement))).rejects.toThrow('permission denied');
  }
});

test('the definer role cannot log in, and unrelated roles cannot connect to this database', async () => {
  const [definer] = await as(
    'despatch_api',
    (sql) => sql`
    select rolcanlogin, rolsuper, rolcreaterole, rolbypassrls from pg_roles where rolname = 'despatch_definer'`,
  );
  expect(definer).toEqual({ rolcanlogin: false, rolsuper: false, rolcreaterole: false, rolbypassrls: false });
  await expect(as('stranger', (sql) => sql`select 1`)).rejects.toThrow('permission denied for database');
});

function urlOf(role: string): string {
  return loginUrl(server.superuserUrl('messaging'), role, PASSWORD);
}

async function asSuperuser(database: string, work: (sql: Sql) => Promise<void>): Promise<void> {
  const sql = postgres(server.superuserUrl(database), { max: 1, onnotice: () => {} });
  try {
    await work(sql);
  } finally {
    await sql.end();
  }
}

async function as(role: string, work: (sql: Sql) => PromiseLike<Row[]>): Promise<Row[]> {
  const sql = postgres(urlOf(role), { max: 1, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end();
  }
}
