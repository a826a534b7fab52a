import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';

const waiting = new WeakMap<TransactionSql, (() => void)[]>();

/** Runs one transaction, and after its commit the hooks that `afterCommit` registered in it; after a rollback none of them. */
export async function inTransaction<T>(sql: Sql, work: (tx: TransactionSql) => Promise<T>): Promise<T> {
  let hooks: readonly (() => void)[] = [];
  const result = (await sql.begin(async (tx) => {
    const own: (() => void)[] = [];
    waiting.set(tx, own);
    hooks = own;
    return work(tx);
  })) as T;
  for (const hook of hooks) hook();
  return result;
}

/**
 * Runs one transaction and rolls it back.
 * @returns the result of `work`.
 * @throws whatever `work` throws.
 */
export async function rolledBack<T>(sql: Sql, work: (tx: TransactionSql) => Promise<T>): Promise<T> {
  // The driver commits unless the callback throws.
  const rollback = new Error('rolled back on purpose');
  let result: { readonly value: T } | undefined;
  try {
    await sql.begin(async (tx) => {
      result = { value: await work(tx) };
      throw rollback;
    });
  } catch (error) {
    if (error !== rollback) throw error;
  }
  return (result as { readonly value: T }).value;
}

/**
 * Registers a hook for after the commit. It must not throw, because the change has been committed. It runs even if the caller has
 * stopped waiting.
 */
export function afterCommit(tx: TransactionSql, hook: () => void): void {
  const hooks = waiting.get(tx);
  if (hooks === undefined) throw new Error('the transaction was not begun by inTransaction');
  hooks.push(hook);
}
