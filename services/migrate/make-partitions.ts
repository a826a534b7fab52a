import { isLockRefused } from '#core/domain/database-fault.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { tryMaintenanceLock } from '#core/store/partitions.ts';

/**
 * Makes the partitions that are missing, so that a new table has them before its first row. One transaction each, as
 * each locks what requests use.
 * @returns the tables whose partitions somebody else's locks kept from being made: workers make them later.
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
