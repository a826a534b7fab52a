import type { Sql } from '#core/platform/postgres/postgres.ts';

/**
 * Holds a snapshot of the current data, as a backup does, so that vacuum cannot remove rows that die from now on; ends when
 * disposed.
 */
export async function holdSnapshot(sql: Sql): Promise<AsyncDisposable> {
  const [begun, ending] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const held = sql.begin('isolation level repeatable read', async (tx) => {
    await tx`select pg_current_snapshot()`;
    begun.resolve();
    await ending.promise;
  });
  await Promise.race([begun.promise, held]);
  return {
    async [Symbol.asyncDispose]() {
      ending.resolve();
      await held;
    },
  };
}
