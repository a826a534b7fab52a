import { databaseFaultOf, isLockRefused } from '#core/domain/database-fault.ts';
import type { Bounded } from './bounded-queries.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';

export type Maintained = {
  readonly made: number;
  /** Names of the partitions that were dropped. */
  readonly dropped: readonly string[];
  /** Tables with locks held by other sessions: to be retried soon. */
  readonly busy: readonly string[];
};

/** Rows per step. */
const PURGED_AT_ONCE = 5_000;

type Task = { readonly task: 'make' | 'drop'; readonly parent: string; readonly monday: string };

/**
 * Makes and drops partitions, and deletes obsolete rows that are in no partition of their own, in bounded steps. Each step is a
 * transaction that gives up within seconds if another session reads for long: that table is left alone then, because all sends
 * would queue behind the waiting step.
 * @param bounded gives one step its deadline.
 * @returns `elsewhere` if another worker is doing it.
 * @throws the error that stopped a step, after all other steps have been tried; at once if the database is away.
 */
export async function maintainPartitions(sql: Sql, bounded: Bounded): Promise<Maintained | 'elsewhere'> {
  let made = 0;
  const dropped: string[] = [];
  const busy = new Set<string>();
  const failures: unknown[] = [];

  const step = (work: (tx: TransactionSql) => Promise<unknown>): Promise<boolean> =>
    bounded(
      sql.begin(async (tx) => {
        const isMine = await tryMaintenanceLock(tx);
        if (isMine) await work(tx);
        return isMine;
      }),
    );

  const tasks = await bounded(sql<Task[]>`select task, parent, monday from partition_tasks()`);
  for (const { task, parent, monday } of tasks) {
    if (busy.has(parent)) continue;
    try {
      const isMine = await step(async (tx) => {
        const [row] =
          task === 'make'
            ? await tx<{ done: boolean }[]>`select make_partition(${parent}, ${monday}) as done`
            : await tx<{ done: boolean }[]>`select drop_partition(${parent}, ${monday}) as done`;
        if (row?.done !== true) return;
        if (task === 'make') made += 1;
        else dropped.push(`${parent}_${monday.replaceAll('-', '')}`);
      });
      if (!isMine) return 'elsewhere';
    } catch (error) {
      if (isLockRefused(error)) busy.add(parent);
      else if (databaseFaultOf(error) === 'away') throw error;
      else failures.push(error);
    }
  }
  const tables = await bounded(sql<{ name: string }[]>`select name from purged_tables() as name`);
  for (const { name } of tables) {
    try {
      for (;;) {
        let purged = 0;
        const isMine = await step(async (tx) => {
          const [row] = await tx<{ n: number }[]>`select purge_rows(${name}, ${PURGED_AT_ONCE}) as n`;
          purged = row?.n ?? 0;
        });
        if (!isMine) return 'elsewhere';
        if (purged < PURGED_AT_ONCE) break;
      }
    } catch (error) {
      if (databaseFaultOf(error) === 'away') throw error;
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return { made, dropped, busy: [...busy] };
}

/**
 * Takes the lock for making and dropping partitions, which one process at a time may hold, until the transaction ends. @returns
 * whether it was free.
 */
export async function tryMaintenanceLock(tx: TransactionSql): Promise<boolean> {
  const [lock] = await tx<{ isMine: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtext('despatch.maintain')) as "isMine"`;
  return lock?.isMine === true;
}
