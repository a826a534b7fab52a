import type { Sql } from '#core/platform/postgres/postgres.ts';

/** Looks at the data as they are now, as a backup does, so that no row that dies from now on can be cleared away; ends when disposed. */
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
