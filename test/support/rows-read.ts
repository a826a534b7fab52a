import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';

/** Returns how many rows of tables `work` reads on this connection, in a transaction of its own. */
export async function rowsRead(connection: Sql, work: () => Promise<void>): Promise<number> {
  await connection`begin`;
  const before = await rowsTouched(connection);
  await work();
  const after = await rowsTouched(connection);
  await connection`commit`;
  return after - before;
}

/**
 * Returns the rows that this connection read since Postgres last flushed its statistics; it flushes none within a transaction.
 */
export async function rowsTouched(connection: Sql | TransactionSql): Promise<number> {
  const [row] = await connection<{ n: number }[]>`
    select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::int as n from pg_stat_xact_user_tables`;
  return row?.n ?? 0;
}
