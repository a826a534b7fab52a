import type { Readiness } from '#core/platform/health.ts';
import type { Sql } from '#core/platform/postgres.ts';
import { schemaVersion } from '#core/store/schema-version.ts';

/**
 * Ready means: the database answers and has at least the schema of this code; a newer one serves it too, as changes
 * add before they take away. NATS may be away, and Vault too: sending goes on without them.
 */
export function schemaReadiness(sql: Sql, schemaNeeded: number): () => Promise<Readiness> {
  return async () => {
    const version = await schemaVersion(sql).catch(() => null);
    if (version === null) return { failing: ['database'] };
    return { failing: version < schemaNeeded ? ['schema'] : [] };
  };
}
