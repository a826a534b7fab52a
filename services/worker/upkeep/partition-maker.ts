import type { MonotonicClock } from '#core/domain/clock.ts';
import type { Maintained } from '#core/store/upkeep/partitions.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { throwFailures } from './throw-failures.ts';

export type PartitionMakerDeps = {
  readonly store: Pick<WorkerStore, 'makePartitions'>;
  /** Called by the worker that made partitions, or could not lock a table for it. */
  readonly onMaintained: (result: Maintained) => void;
  /** Milliseconds of a clock that is never set back. */
  readonly monotonicMs: MonotonicClock;
};

export type PartitionMaker = {
  /** Notes that a tenant's limits may have changed. @returns after how many milliseconds `make` should run. */
  request(): number;
  /**
   * Makes the partitions that are missing, if that was requested: upkeep makes the others, and only one of both can work at a time.
   * @returns after how many milliseconds it should run again; undefined if all is done.
   * @throws an error that names all that could not be made.
   */
  make(): Promise<number | undefined>;
};

/** Changes of many tenants, as when a plan changes, cause one run. */
const SETTLE_MS = 1_000;
/** The least time between two runs that changes of tenants cause: anybody who may change members can cause such a change. */
const GAP_MS = 60_000;
/** While another session reads a table for long, as a backup does, sends queue behind each try to lock the table. */
const BUSY_GAP_MS = 5 * 60_000;

/** Makes partitions soon after a tenant was given a longer retention, because they are made that far ahead. */
export function createPartitionMaker({
  store,
  onMaintained,
  monotonicMs,
}: PartitionMakerDeps): PartitionMaker {
  let notBefore = Number.NEGATIVE_INFINITY;
  let isRequested = false;

  function restMs(): number {
    return Math.max(SETTLE_MS, notBefore - monotonicMs());
  }

  return {
    request() {
      isRequested = true;
      return restMs();
    },
    async make() {
      if (!isRequested) return undefined;
      isRequested = false;
      notBefore = monotonicMs() + GAP_MS;
      const result = await store.makePartitions();
      if (result === 'elsewhere') {
        isRequested = true;
        return restMs();
      }
      const isBusy = result.busy.length > 0;
      if (result.made > 0 || isBusy) onMaintained(result);
      throwFailures(result.failures);
      if (!isBusy) return undefined;
      isRequested = true;
      notBefore = monotonicMs() + BUSY_GAP_MS;
      return restMs();
    },
  };
}
