import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';

const DEADLINE_MS = 1_500;

/**
 * Ready means: the database answers and has at least the schema of this code; a newer one serves it too, as changes
 * add before they take away. NATS may be away, and Vault too: the service goes on without them.
 */
export function schemaReadiness(
  sql: Sql,
  schemaNeeded: number,
): () => Promise<{ readonly failing: readonly string[] }> {
  return async () => {
    const version = await schemaVersion(sql).catch(() => null);
    if (version === null) return { failing: ['database'] };
    return { failing: version < schemaNeeded ? ['schema'] : [] };
  };
}

/** Number of the last migration that was applied. */
async function schemaVersion(sql: Sql): Promise<number> {
  const [row] = await withDeadline(
    sql<{ version: number }[]>`select schema_version() as version`,
    DEADLINE_MS,
  );
  return row?.version ?? 0;
}
