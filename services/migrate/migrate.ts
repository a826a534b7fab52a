import { openPostgres, type TransactionSql } from '#core/platform/postgres.ts';
import { secret } from '#core/domain/secret.ts';
import { migrationFiles, migrationSql } from '#core/store/migration-files.ts';

/** One number for everybody who migrates any Despatch database; "despatch" in ASCII, first seven bytes. */
const LOCK = 0x64_65_73_70_61_74_63n;
const SERVICE_ROLES = ['api', 'worker', 'controller'] as const;

export type MigrateOptions = {
  /** A role that may create roles and schemas in the database, usually the database's owner with CREATEROLE. */
  readonly databaseUrl: string;
  /** Passwords of the login roles `despatch_api`, `despatch_worker`, `despatch_controller`; an absent one is left alone. */
  readonly passwords: { readonly [Role in (typeof SERVICE_ROLES)[number]]?: string };
  readonly caFile?: string;
};

/**
 * Brings the schema up to date: forward-only numbered files, each in one transaction with its own version row, all
 * under one advisory lock, so that any number of runs at once end in the same state. Safe to repeat.
 * @returns the file names that were applied now.
 */
export async function migrate(options: MigrateOptions): Promise<{ applied: string[] }> {
  await using database = openPostgres({
    url: secret(options.databaseUrl),
    poolMax: 1,
    statementTimeoutMs: 600_000,
    caFile: options.caFile,
    applicationName: 'despatch-migrate',
  });
  const { sql } = database;
  await sql`select pg_advisory_lock(${LOCK.toString()}::bigint)`;
  try {
    await sql.begin((tx) => prepareRoles(tx, options.passwords));
    const done = new Set(
      (await sql<{ name: string }[]>`select name from despatch.migrations`).map((row) => row.name),
    );
    const applied: string[] = [];
    for (const { version, name } of migrationFiles()) {
      if (done.has(name)) continue;
      await sql.begin(async (tx) => {
        await tx`set local role despatch_definer`;
        await tx`insert into despatch.migrations (version, name) values (${version}, ${name})`;
        await tx.unsafe(migrationSql(name));
      });
      applied.push(name);
    }
    return { applied };
  } finally {
    await sql`select pg_advisory_unlock(${LOCK.toString()}::bigint)`;
  }
}

async function prepareRoles(tx: TransactionSql, passwords: MigrateOptions['passwords']): Promise<void> {
  // Role names are ours alone, so they need no quoting; `create role if not exists` does not exist.
  const present = new Set(
    (await tx<{ rolname: string }[]>`select rolname from pg_roles where rolname like 'despatch\\_%'`).map(
      (r) => r.rolname,
    ),
  );
  if (!present.has('despatch_definer')) await createRole(tx, 'despatch_definer', 'nologin');
  for (const role of SERVICE_ROLES) {
    if (!present.has(`despatch_${role}`)) await createRole(tx, `despatch_${role}`, 'login');
    const password = passwords[role];
    if (password !== undefined) {
      const [quoted] = await tx<{ literal: string }[]>`select quote_literal(${password}) as literal`;
      await tx.unsafe(`alter role despatch_${role} password ${quoted?.literal ?? ''}`);
    }
  }
  // Only who made the role, or was given it, may pass it on; a member needs nothing more.
  const [membership] = await tx<{ holds: boolean }[]>`
    select pg_has_role(current_user, 'despatch_definer', 'SET') as holds`;
  if (membership?.holds !== true) await tx`grant despatch_definer to current_user`;
  await tx`create schema if not exists despatch authorization despatch_definer`;
  await tx`set local role despatch_definer`;
  await tx`create table if not exists despatch.migrations (
    version integer primary key, name text not null unique, applied_at timestamptz not null default now())`;
}

/** Roles belong to the whole server: another database's migration may be creating the same one. */
async function createRole(tx: TransactionSql, name: string, login: 'login' | 'nologin'): Promise<void> {
  await tx.unsafe(
    `do $$ begin create role ${name} ${login}; exception when duplicate_object or unique_violation then null; end $$`,
  );
}
