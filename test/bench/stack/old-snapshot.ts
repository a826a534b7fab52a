import { openPostgres } from '#core/platform/postgres/postgres.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { holdSnapshot } from '../../support/hold-snapshot.ts';
import type { World } from './stack.ts';

/** Longer than any measurement; Postgres ends the idle transaction after it. */
const IDLE_MS_MAX = 24 * 3_600_000;

/** Holds a snapshot open on a separate connection, as a long report does; ends when disposed. */
export async function openSnapshot({ ownerUrl }: Pick<World, 'ownerUrl'>): Promise<AsyncDisposable> {
  const reader = openPostgres({
    url: secret(ownerUrl),
    poolMax: 1,
    statementTimeoutMs: IDLE_MS_MAX,
    applicationName: 'bench-snapshot',
  });
  const held = await holdSnapshot(reader.sql);
  return {
    async [Symbol.asyncDispose]() {
      await held[Symbol.asyncDispose]();
      await reader[Symbol.asyncDispose]();
    },
  };
}
