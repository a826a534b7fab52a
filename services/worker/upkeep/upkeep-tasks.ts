import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import { HOUR_MS, MINUTE_MS } from '#core/domain/text/duration.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { WorkerEvents } from '../events.ts';
import type { Task } from '../tasks.ts';
import { createBrakeChannels } from './brake-channels.ts';
import { countUsage, COUNTING_MS, type CountUsageDeps } from './count-usage.ts';
import { maintain, type MaintainDeps } from './maintain.ts';
import type { PartitionMaker } from './partition-maker.ts';
import { NUMBERING_GAP_MS, numberEvents, type NumberEventsDeps } from './number-events.ts';

export type UpkeepTaskName =
  | 'numbering'
  | 'usage'
  | 'forget'
  | 'contents'
  | 'unordered_deliveries'
  | 'partitions'
  | 'maintain';

export type UpkeepTasksDeps = Pick<NumberEventsDeps, 'onToMatch' | 'isStopping'> & {
  readonly store: NumberEventsDeps['store'] &
    CountUsageDeps['store'] &
    MaintainDeps['store'] &
    Pick<WorkerStore, 'applyBrakes' | 'forgetReplacedSecrets' | 'releaseDeliveries' | 'settleContents'>;
  readonly partitionMaker: Pick<PartitionMaker, 'make'>;
  readonly events: Pick<WorkerEvents, 'numbered' | 'maintained'>;
  readonly onBraked: (entry: AuditEntry) => void;
  /** Drops what this process has cached and not used for a while. */
  readonly forgetUnused: () => void;
  readonly wake: (task: 'numbering' | 'partitions' | 'maintain', delayMs: number) => void;
};

const CONTENTS_AT_ONCE = 100;
const RELEASED_AT_ONCE = 5_000;
const NUMBERING_MS = 1_000;
/** Time until the next try while a long read, such as a backup, or a message that is not settled yet holds up the task. */
const BUSY_RETRY_MS = 5 * MINUTE_MS;

export function upkeepTasks({
  store,
  partitionMaker,
  events,
  onToMatch,
  onBraked,
  forgetUnused,
  isStopping,
  wake,
}: UpkeepTasksDeps): Record<UpkeepTaskName, Task> {
  const brakeChannels = createBrakeChannels(store);

  /** Repeats the work until it processes less than `most`. */
  async function inBatches(
    work: (most: number) => Promise<number>,
    most: number,
    onBatch: () => void,
  ): Promise<void> {
    while ((await work(most)) >= most && !isStopping()) onBatch();
  }

  return {
    numbering: {
      everyMs: NUMBERING_MS,
      async work(onBatch) {
        const ended = await numberEvents({
          store,
          onBatch,
          onNumbered: events.numbered,
          onToMatch,
          isStopping,
        });
        if (ended === 'early') wake('numbering', NUMBERING_GAP_MS);
      },
    },
    usage: {
      everyMs: COUNTING_MS,
      work: (onBatch) => countUsage({ store, brakeChannels, onBraked, onBatch, isStopping }),
    },
    forget: {
      everyMs: MINUTE_MS,
      work() {
        forgetUnused();
        return store.forgetReplacedSecrets();
      },
    },
    contents: {
      everyMs: MINUTE_MS,
      work: (onBatch) => inBatches(store.settleContents, CONTENTS_AT_ONCE, onBatch),
    },
    unordered_deliveries: {
      everyMs: MINUTE_MS,
      work: (onBatch) => inBatches(store.releaseDeliveries, RELEASED_AT_ONCE, onBatch),
    },
    partitions: {
      everyMs: HOUR_MS,
      async work() {
        const againMs = await partitionMaker.make();
        if (againMs !== undefined) wake('partitions', againMs);
      },
    },
    maintain: {
      everyMs: HOUR_MS,
      work: () =>
        maintain({
          store,
          onMaintained: events.maintained,
          retrySoon: () => wake('maintain', BUSY_RETRY_MS),
        }),
    },
  };
}
