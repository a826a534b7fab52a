import { withDeadline, type Sql } from '#core/platform/postgres.ts';

const DEADLINE_MS = 1_500;

/** Number of the last migration that was applied. */
export async function schemaVersion(sql: Sql): Promise<number> {
  const [row] = await withDeadline(
    sql<{ version: number }[]>`select schema_version() as version`,
    DEADLINE_MS,
  );
  return row?.version ?? 0;
}
