import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';
import type { SchemaVersion } from './migration-files.ts';

const DEADLINE_MS = 1_500;

/**
 * Returns a readiness check: the database answers, and has at least the schema of this build. A newer schema will do too, because
 * changes add before they remove: a later migration, or functions that replaced this build's. NATS and Vault are not checked: the
 * service works without them.
 * @param onChecked called after each check with what fails and why.
 */
export function schemaReadiness(
  sql: Sql,
  needed: SchemaVersion,
  onChecked: (failing: readonly string[], facts: object) => void,
): () => Promise<{ readonly failing: readonly string[] }> {
  return async () => {
    const { failing, ...facts } = await storedSchema(sql, needed).then(
      (stored) => ({ ...stored, failing: serves(stored, needed) ? [] : ['schema'] }),
      (error: unknown) => ({ err: error, failing: [isUnmigrated(error) ? 'schema' : 'database'] }),
    );
    onChecked(failing, facts);
    return { failing };
  };
}

function serves({ migration, hasFunctions }: StoredSchema, needed: SchemaVersion): boolean {
  return migration > needed.migration || (migration === needed.migration && hasFunctions);
}

/** Whether the database answers, but does not have the schema, or the functions for a query, yet. */
export function isUnmigrated(error: unknown): boolean {
  return databaseFaultOf(error) === 'service' && UNDEFINED.has((error as { code?: string }).code ?? '');
}

/** SQLSTATEs: no such schema, function, table. */
const UNDEFINED = new Set(['3F000', '42883', '42P01']);

type StoredSchema = {
  /** Number of the last migration that was applied, 0 before the first. */
  readonly migration: number;
  /** Whether the functions of this build have been applied, or newer ones were left in force for it. */
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
