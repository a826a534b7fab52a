import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { testDatabase, type TestDatabase } from '#test/support/servers.ts';
import { readRunbooks } from '#test/analysis/monitoring-files.ts';

let database: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  database = await testDatabase();
  sql = database.open('admin', 1);
});
afterAll(() => database?.[Symbol.asyncDispose]());

/** The SQL statements in the code blocks of the runbooks, with an id in each placeholder. */
const statements = [...readRunbooks()].flatMap(([alert, text]) =>
  [...text.matchAll(/^```sql\n(.*?)^```/gms)]
    .flatMap(([, block = '']) => block.replaceAll(/--.*$/gm, '').split(';'))
    .map((statement) => statement.trim().replaceAll("'ID'", `'${randomUUID()}'`))
    .filter((statement) => statement !== '')
    .map((statement) => [alert, statement] as const),
);

class DryRunRollback extends Error {}

describe('the SQL statements of the runbooks', () => {
  test('are found in the runbooks', () => {
    expect(statements.length).toBeGreaterThan(15);
  });

  test.each(statements)('%s: %s', async (_alert, statement) => {
    const asked = sql.begin(async (tx) => {
      // The search path of a psql session.
      await tx`set local search_path = public`;
      await tx.unsafe(statement);
      throw new DryRunRollback();
    });
    await expect(asked).rejects.toBeInstanceOf(DryRunRollback);
  });
});
