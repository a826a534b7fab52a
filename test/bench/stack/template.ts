import type { Sql } from '#core/platform/postgres/postgres.ts';
import { makePartitions } from '../../../services/migrate/make-partitions.ts';
import { migrate } from '../../../services/migrate/migrate.ts';
import type { KeptFile } from './kept-file.ts';
import { createPlainTable } from './layout.ts';
import type { BenchTenant, TenantPool } from './seed.ts';
import type { StackState } from './stack-state.ts';

export const TEMPLATE = 'bench_template';
/** A separate role, so that the bench's own statements can be told from the measured ones. */
export const OBSERVER = 'bench_observer';

export type TemplateOptions = {
  readonly kept: KeptFile<StackState>;
  readonly sql: Sql;
  readonly urlOf: (database: string) => string;
  readonly open: (database: string) => AsyncDisposable & { readonly sql: Sql };
  readonly pool: TenantPool;
};

/** Creates the database that all others are copied from, with the run's tenants in it, unless a kept folder has it. */
export async function ensureTemplate({
  kept,
  sql,
  urlOf,
  open,
  pool,
}: TemplateOptions): Promise<BenchTenant[]> {
  const { state } = kept;
  if (state.hasTemplate) return pool.known(0, state.tenants);
  await sql`drop database if exists ${sql(TEMPLATE)} with (force)`;
  await sql`create database ${sql(TEMPLATE)}`;
  const { api, worker, observer } = state.passwords;
  const [role] = await sql`select 1 from pg_roles where rolname = ${OBSERVER}`;
  if (role === undefined) await sql.unsafe(`create role ${OBSERVER} superuser login password '${observer}'`);
  await migrate({ databaseUrl: urlOf(TEMPLATE), passwords: { api, worker } });
  await using template = open(TEMPLATE);
  await template.sql`create extension pg_stat_statements`;
  await createPlainTable(template.sql);
  const tenants = await pool.writeTo(template.sql, 0, state.tenants);
  // The tenants' limits require more weekly partitions than a new database has. A worker would create them during a measurement,
  // and each makes every connection plan its statements again.
  await makePartitions(template.sql);
  state.hasTemplate = true;
  await kept.save();
  return tenants;
}
