import { isLockRefused } from '#core/domain/storage/database-fault.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { tryMaintenanceLock } from '#core/store/upkeep/partitions.ts';

/**
 * Creates the missing partitions, so that a new table has them before its first row. One transaction per partition, because each
 * locks a table that requests use.
 * @returns the tables whose partitions could not be created because of other sessions' locks: workers create them later.
 */
export async function makePartitions(sql: Sql): Promise<string[]> {
  const asDefiner = <T>(work: (tx: TransactionSql) => Promise<T>) =>
    sql.begin(async (tx) => {
      await tx`set local role despatch_definer`;
      return work(tx);
    });
  const missing = await asDefiner(
    (tx) => tx<{ parent: string; monday: string }[]>`
      select parent, monday from partition_tasks() where task = 'make'`,
  );
  const left = new Set<string>();
  for (const { parent, monday } of missing) {
    if (left.has(parent)) continue;
    try {
      await asDefiner(async (tx) => {
        if (await tryMaintenanceLock(tx)) await tx`select make_partition(${parent}, ${monday})`;
        else left.add(parent);
      });
    } catch (error) {
      if (!isLockRefused(error)) throw error;
      left.add(parent);
    }
  }
  return [...left];
}
