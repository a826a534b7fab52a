import type { Maintained } from '#core/store/partitions.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { throwFailures } from './throw-failures.ts';

export type PartitionMakerDeps = {
  readonly store: Pick<WorkerStore, 'makePartitions'>;
  /** Called by the worker that made partitions, or could not lock a table for it. */
  readonly onMaintained: (result: Maintained) => void;
  /** Milliseconds of a clock that is never set back. */
  readonly now: () => number;
};

export type PartitionMaker = {
  /** Makes the partitions that are missing, if any. @throws an error that names all that could not be made. */
  make(): Promise<void>;
  /** Returns after how many milliseconds `make` should run because a tenant's limits may have changed. */
  gapMs(): number;
};

/** Changes of many tenants, as when a plan changes, cause one run. */
const SETTLE_MS = 1_000;
/** The least time between two runs that changes of tenants cause: anybody who may change members can cause such a change. */
const GAP_MS = 60_000;
/** While another session reads a table for long, as a backup does, sends queue behind each try to lock the table. */
const BUSY_GAP_MS = 5 * 60_000;

/** Makes partitions soon after a tenant was given a longer retention, because they are made that far ahead. */
export function createPartitionMaker({ store, onMaintained, now }: PartitionMakerDeps): PartitionMaker {
  let notBefore = Number.NEGATIVE_INFINITY;
  return {
    async make() {
      notBefore = now() + GAP_MS;
      const result = await store.makePartitions();
      if (result === 'elsewhere') return;
      if (result.busy.length > 0) notBefore = now() + BUSY_GAP_MS;
      if (result.made > 0 || result.busy.length > 0) onMaintained(result);
      throwFailures(result.failures);
    },
    gapMs: () => Math.max(SETTLE_MS, notBefore - now()),
  };
}
