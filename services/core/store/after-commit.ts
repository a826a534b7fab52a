import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';

const waiting = new WeakMap<TransactionSql, (() => void)[]>();

/** One transaction, and after its commit what `afterCommit` was given in it; after a rollback nothing of that. */
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

/** Must not throw: what it follows has happened. Also runs where the caller has given up waiting. */
export function afterCommit(tx: TransactionSql, hook: () => void): void {
  const hooks = waiting.get(tx);
  if (hooks === undefined) throw new Error('the transaction was not begun by inTransaction');
  hooks.push(hook);
}
