import { databaseFaultOf } from '#core/domain/database-fault.ts';
import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';
import type { SchemaVersion } from './migration-files.ts';

const DEADLINE_MS = 1_500;

/**
 * Returns a readiness check: the database answers, and has at least the schema of this build. A newer schema will do too, because
 * changes add before they remove: a later migration, or functions that replaced this build's. NATS and Vault are not checked: the
 * service works without them.
 */
export function schemaReadiness(
  sql: Sql,
  needed: SchemaVersion,
): () => Promise<{ readonly failing: readonly string[] }> {
  return async () => {
    const stored = await storedSchema(sql, needed).catch(databaseFaultOf);
    // The database answers, but does not have the function for this query yet.
    if (stored === 'service') return { failing: ['schema'] };
    if (stored === null || typeof stored === 'string') return { failing: ['database'] };
    const { migration, hasFunctions } = stored;
    const serves = migration > needed.migration || (migration === needed.migration && hasFunctions);
    return { failing: serves ? [] : ['schema'] };
  };
}

type StoredSchema = {
  /** Number of the last migration that was applied, 0 before the first. */
  readonly migration: number;
  /** Whether the functions of this build have been applied, now or before newer ones. */
  readonly hasFunctions: boolean;
};

async function storedSchema(sql: Sql, { functions }: SchemaVersion): Promise<StoredSchema> {
  const [row] = await withDeadline(
    sql<StoredSchema[]>`
      select coalesce(schema_version(), 0) as migration, has_functions(decode(${functions}, 'hex')) as "hasFunctions"`,
    DEADLINE_MS,
  );
  return row ?? { migration: 0, hasFunctions: false };
}
