import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';

class DryRunRollback extends Error {
  override readonly name = 'DryRunRollback';
}

/** Runs the work in one transaction, and commits it if `apply` is set; a dry run rolls it back. */
export async function commitUnlessDry(
  sql: Sql,
  apply: boolean,
  work: (tx: TransactionSql) => Promise<void>,
): Promise<void> {
  await sql
    .begin(async (tx) => {
      await work(tx);
      if (!apply) throw new DryRunRollback();
    })
    .catch((error: unknown) => {
      if (!(error instanceof DryRunRollback)) throw error;
    });
}
