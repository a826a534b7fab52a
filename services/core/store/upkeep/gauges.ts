import type { BrakeLevel } from '#core/domain/tenant/brake.ts';
import type { PartitionTask } from '#core/domain/storage/partition-task.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';

/** Messages of all active tenants. */
export type MessageTotals = {
  /** Those for which a provider may still be called, without scheduled messages and those behind a brake. */
  readonly backlog: number;
  readonly scheduled: number;
  readonly braked: number;
};

/** Reads what a worker's metrics show of the database. Every worker reads the same. */
export function gaugeStore(sql: Sql, bounded: Bounded) {
  const { count, rowsOf } = boundedQueries(bounded);
  return {
    async messageTotals(): Promise<MessageTotals> {
      const [totals] = await rowsOf<MessageTotals>(
        sql`select backlog, scheduled, braked from message_totals()`,
      );
      return totals ?? { backlog: 0, scheduled: 0, braked: 0 };
    },
    /** Counts the braked channels of all active tenants by level; levels without channels are left out. */
    brakedChannels: () =>
      rowsOf<{ level: BrakeLevel; channels: number }>(sql`select level, channels from count_brakes()`),
    /**
     * Returns the tasks that `maintain` has left. `blocked`: rows of the week are in the default partition, and are moved when the
     * partition is made unless they are too many.
     */
    partitionsDue: () =>
      rowsOf<{ task: PartitionTask; partitions: number }>(sql`select task, partitions from partitions_due()`),
    /** Returns for how long the oldest deletion of a tenant has been under way; 0 if there is none. */
    oldestDeletionSeconds: () => count(sql`select oldest_deletion_seconds() as n`),
    /** Returns how long the oldest call of a vendor has waited; 0 without any. */
    oldestReceiptSeconds: () => count(sql`select oldest_receipt_seconds() as n`),
    /** Returns how long the oldest event has waited for its number; 0 if none waits. */
    oldestChangeSeconds: () => count(sql`select oldest_change_seconds() as n`),
    /** Returns how long the oldest move has waited to be counted; 0 if none waits. */
    oldestUsageSeconds: () => count(sql`select oldest_usage_seconds() as n`),
  };
}

export type GaugeStore = ReturnType<typeof gaugeStore>;
