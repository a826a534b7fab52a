import { openPostgres } from '#core/platform/postgres/postgres.ts';
import { secret } from '#core/domain/secret.ts';
import type { World } from './stack.ts';

/** Longer than any measurement: a transaction that does nothing is ended after it. */
const IDLE_MS_MAX = 24 * 3_600_000;

/** Somebody's report that looks at the data as they are now, so that no row that dies from now on can be cleared away; ends when disposed. */
export async function holdSnapshot({ ownerUrl }: Pick<World, 'ownerUrl'>): Promise<AsyncDisposable> {
  const reader = openPostgres({
    url: secret(ownerUrl),
    poolMax: 1,
    statementTimeoutMs: IDLE_MS_MAX,
    applicationName: 'bench-snapshot',
  });
  const [begun, ending] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const held = reader.sql.begin('isolation level repeatable read', async (tx) => {
    await tx`select pg_current_snapshot()`;
    begun.resolve();
    await ending.promise;
  });
  await Promise.race([begun.promise, held]);
  return {
    async [Symbol.asyncDispose]() {
      ending.resolve();
      await held;
      await reader[Symbol.asyncDispose]();
    },
  };
}
