import { isUnreachable } from '#core/domain/storage/database-fault.ts';
import type { Maintained, UpkeepFailure } from '#core/store/upkeep/partitions.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { throwFailures } from './throw-failures.ts';

export type MaintainDeps = {
  readonly store: Pick<
    WorkerStore,
    'clockOffsetSeconds' | 'unsettledDays' | 'endOutlived' | 'maintain' | 'makePartitions'
  >;
  /** Called by the worker that did the upkeep, also where parts of it failed. */
  readonly onMaintained: (result: Maintained) => void;
  /** Called if something has to wait for other sessions, or for messages to be settled. */
  readonly retrySoon: () => void;
};

/** The database's clock decides what is over. If this process's is further behind it, one of the two is wrong. */
const BEHIND_SECONDS_MAX = 3_600;
const OUTLIVED_PAGE = { readsMax: 50_000, most: 500 };

/**
 * Ends messages whose record is about to be dropped, makes and drops partitions, and deletes obsolete rows. While the database's
 * clock is ahead of this process's by more than an hour it only makes partitions: what was dropped by a wrong clock does not come
 * back.
 * @returns `unfinished` if another worker does it, or something has to be retried soon.
 * @throws an error that names everything that failed, after the rest was done; at once if the database is lost.
 */
export async function maintain({
  store,
  onMaintained,
  retrySoon,
}: MaintainDeps): Promise<'unfinished' | undefined> {
  const failures: UpkeepFailure[] = [];
  const offsetSeconds = await store.clockOffsetSeconds();
  if (offsetSeconds < -BEHIND_SECONDS_MAX) {
    const made = await store.makePartitions();
    if (made !== 'elsewhere') {
      onMaintained(made);
      failures.push(...made.failures);
    }
    const text = `The database's clock is ${Math.round(-offsetSeconds)} seconds ahead of this process's`;
    failures.push({ what: 'clock', error: new Error(text) });
    throwFailures(failures);
  }
  const ended = await endOutlived(store).catch((error: unknown) => {
    if (isUnreachable(error)) throw error;
    failures.push({ what: 'live_messages', error });
  });
  if (ended === 'elsewhere') return 'unfinished';
  const result = await store.maintain();
  let isDone = result !== 'elsewhere';
  if (result !== 'elsewhere') {
    onMaintained(result);
    failures.push(...result.failures);
    if (result.busy.length > 0 || result.unsettled.length > 0) {
      isDone = false;
      retrySoon();
    }
  }
  throwFailures(failures);
  return isDone ? undefined : 'unfinished';
}

/** Reads all live messages, and so only if a week with some of them is over. */
async function endOutlived(store: MaintainDeps['store']): Promise<number | 'elsewhere'> {
  return (await store.unsettledDays()).length === 0 ? 0 : store.endOutlived(OUTLIVED_PAGE);
}
