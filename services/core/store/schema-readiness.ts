import { databaseFaultOf } from '#core/domain/database-fault.ts';
import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { SchemaVersion } from './migration-files.ts';

const DEADLINE_MS = 1_500;

/**
 * Returns a readiness check: the database answers, and has at least the schema of this build. A newer schema will do too, because
 * changes add before they remove: a later migration, or functions that replaced this build's. NATS and Vault are not checked: the
 * service works without them. Each change of the result is logged, because Kubernetes does not show the answers of probes.
 */
export function schemaReadiness(
  sql: Sql,
  needed: SchemaVersion,
  log: Logger,
): () => Promise<{ readonly failing: readonly string[] }> {
  let last: string | undefined;
  return async () => {
    const { failing, ...facts } = await storedSchema(sql, needed).then(
      (stored) => ({ ...stored, failing: serves(stored, needed) ? [] : ['schema'] }),
      (error: unknown) => ({ err: error, failing: [isUnmigrated(error) ? 'schema' : 'database'] }),
    );
    const state = failing.join();
    if (state !== last && failing.length > 0) log.warn({ failing, ...facts }, 'Not ready');
    else if (last !== undefined && state !== last) log.info('Ready again');
    last = state;
    return { failing };
  };
}

function serves({ migration, hasFunctions }: StoredSchema, needed: SchemaVersion): boolean {
  return migration > needed.migration || (migration === needed.migration && hasFunctions);
}

/** Whether the database answers, but does not have the schema, or the functions for this query, yet. */
function isUnmigrated(error: unknown): boolean {
  return databaseFaultOf(error) === 'service' && UNDEFINED.has((error as { code?: string }).code ?? '');
}

/** SQLSTATEs: no such schema, function, table. */
const UNDEFINED = new Set(['3F000', '42883', '42P01']);

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
