import { isLockRefused, isUnreachable } from '#core/domain/storage/database-fault.ts';
import type { Bounded } from '../query/bounded-queries.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';

/** What could not be done: the name of a table, a partition or the function that lists the tasks. */
export type UpkeepFailure = { readonly what: string; readonly error: unknown };

export type Maintained = {
  readonly made: number;
  /** Names of the partitions that were dropped. */
  readonly dropped: readonly string[];
  /** Tables with locks held by other sessions: to be retried soon. */
  readonly busy: readonly string[];
  /**
   * Purge days that have come, whose records are kept because messages of them have not been settled, or because their ends have
   * not been counted and told: to be retried soon. The list may name a day that no longer needs it.
   */
  readonly unsettled: readonly string[];
  /** In the order in which they were tried; the last one may have ended the run, because the database was lost. */
  readonly failures: readonly UpkeepFailure[];
};

/** Rows per step. */
const PURGED_AT_ONCE = 5_000;

type Task = { readonly task: 'make' | 'drop'; readonly parent: string; readonly monday: string };

/**
 * Makes and drops partitions, and deletes obsolete rows that are in no partition of their own, in bounded steps. Each step is a
 * transaction that gives up within seconds if another session reads for long: that table is left alone then, because all sends
 * would queue behind the waiting step. A step that fails does not prevent the others, unless the database is lost.
 * @param bounded gives one step its deadline.
 * @returns `elsewhere` if another worker is doing it.
 */
export async function maintainPartitions(sql: Sql, bounded: Bounded): Promise<Maintained | 'elsewhere'> {
  const run = createRun(sql, bounded);
  const days = await run.attempt(
    'live_messages',
    'live_messages',
    sql<{ day: string }[]>`select unsettled_days() as day`,
  );
  await run.changePartitions(['make', 'drop']);
  const purgeable = sql<{ name: string }[]>`select purged_tables() as name`;
  const tables = run.isOver() ? [] : await run.attempt('purged_tables', 'purged_tables', purgeable);
  for (const { name } of tables ?? []) {
    let purged: number | undefined = PURGED_AT_ONCE;
    while (purged === PURGED_AT_ONCE && !run.isOver()) {
      purged = await run.step(name, name, async (tx): Promise<number> => {
        const [row] = await tx<{ n: number }[]>`select purge_rows(${name}, ${PURGED_AT_ONCE}) as n`;
        return row?.n ?? 0;
      });
    }
  }
  return run.result((days ?? []).map(({ day }) => day));
}

/** Makes the partitions that are missing, as `maintainPartitions` does, and nothing else: cheap if none is. */
export async function makePartitions(sql: Sql, bounded: Bounded): Promise<Maintained | 'elsewhere'> {
  const run = createRun(sql, bounded);
  await run.changePartitions(['make']);
  return run.result([]);
}

function createRun(sql: Sql, bounded: Bounded) {
  let made = 0;
  const dropped: string[] = [];
  const busy = new Set<string>();
  const failures: UpkeepFailure[] = [];
  let end: 'elsewhere' | 'lost' | undefined;

  /** @returns undefined if the work failed. */
  async function attempt<T>(table: string, what: string, work: Promise<T>): Promise<T | undefined> {
    try {
      return await bounded(work);
    } catch (error) {
      if (isLockRefused(error)) busy.add(table);
      else failures.push({ what, error });
      if (isUnreachable(error)) end = 'lost';
      return undefined;
    }
  }

  /** One transaction. @returns undefined also if another worker does the upkeep. */
  function step<T>(
    table: string,
    what: string,
    work: (tx: TransactionSql) => Promise<T>,
  ): Promise<T | undefined> {
    const begun = sql.begin(async (tx) => {
      if (await tryMaintenanceLock(tx)) return work(tx);
      end = 'elsewhere';
      return undefined;
    });
    return attempt(table, what, begun as Promise<T | undefined>);
  }

  async function changePartitions(kinds: readonly Task['task'][]): Promise<void> {
    if (end !== undefined) return;
    const listed = sql<Task[]>`
      select task, parent, monday from partition_tasks() where task = any (${kinds}::text[])`;
    for (const { task, parent, monday } of (await attempt('partition_tasks', 'partition_tasks', listed)) ??
      []) {
      if (end !== undefined) break;
      if (busy.has(parent)) continue;
      const name = `${parent}_${monday.replaceAll('-', '')}`;
      const isDone = await step(parent, name, async (tx) => {
        const [row] =
          task === 'make'
            ? await tx<{ done: boolean }[]>`select make_partition(${parent}, ${monday}) as done`
            : await tx<{ done: boolean }[]>`select drop_partition(${parent}, ${monday}) as done`;
        return row?.done;
      });
      if (isDone !== true) continue;
      if (task === 'make') made += 1;
      else dropped.push(name);
    }
  }

  return {
    attempt,
    step,
    changePartitions,
    isOver: () => end !== undefined,
    result(unsettled: readonly string[]): Maintained | 'elsewhere' {
      return end === 'elsewhere' ? end : { made, dropped, busy: [...busy], unsettled, failures };
    },
  };
}

/**
 * Takes the lock for making and dropping partitions, which one process at a time may hold, until the transaction ends.
 * @returns whether it was free.
 */
export async function tryMaintenanceLock(tx: TransactionSql): Promise<boolean> {
  const [lock] = await tx<{ isMine: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtext('despatch.maintain')) as "isMine"`;
  return lock?.isMine === true;
}
