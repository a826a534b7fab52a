import { expect, inject, test } from 'vitest';
import {
  functionFile,
  functionFiles,
  migrationFiles,
  migrationSql,
} from '#core/store/schema/migration-files.ts';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { MUTANTS } from '#test/fault/mutants.ts';
import { GROUPS } from '#test/security/mutants.ts';
import { plantChanges, readSources, type Changes } from '#test/support/mutant.ts';
import { migrate } from '../../../services/migrate/migrate.ts';

const STORE = 'services/core/store';

test('the SQL with all mutants applied is valid and creates a schema', async () => {
  // Two suites may change the same code.
  const changes = Object.assign(
    {},
    ...[...MUTANTS, ...GROUPS.flat()].map((mutant) => mutant.changes),
  ) as Changes;
  const planted = plantChanges(await readSources(), [{ changes }]);
  const texts = new Map(planted.map(({ path, text }) => [path, text]));
  const migrations = migrationFiles().map(({ version, name }) => ({
    version,
    name,
    sql: () => texts.get(`${STORE}/migrations/${name}`) ?? migrationSql(name),
  }));
  const functions = functionFiles().map(({ name, sql }) =>
    functionFile(name, texts.get(`${STORE}/functions/${name}.sql`) ?? sql),
  );
  const { superuserUrl } = inject('postgres');
  const admin = postgres(superuserUrl, { max: 1, onnotice: () => {} });
  const url = new URL(superuserUrl);
  url.pathname = 'despatch_mutants';
  await admin`create database despatch_mutants`;
  try {
    const migrated = await migrate({ databaseUrl: url.href, passwords: {}, migrations, functions });
    expect(migrated.functions).toEqual(functions.map(({ name }) => name));
  } finally {
    await admin`drop database despatch_mutants with (force)`;
    await admin.end();
  }
});
