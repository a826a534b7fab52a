import type { Sql } from '#core/platform/postgres/postgres.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';
import { clockOffsetSeconds } from './clock-offset.ts';
import { endOutlived, type OutlivedPage } from './outlived-messages.ts';
import { maintainPartitions, makePartitions } from './partitions.ts';

/** What is to be removed or made in time. @param bounded gives a query its deadline. */
export function upkeepStore(sql: Sql, bounded: Bounded) {
  const { count } = boundedQueries(bounded);
  return {
    /** Deletes contents whose messages were never accepted. Returns how many it processed. */
    settleContents: (most: number) => count(sql`select settle_contents(${most}) as n`),
    /** Releases events that still wait for their order although their endpoint no longer asks for it. Returns how many. */
    releaseDeliveries: (most: number) => count(sql`select release_deliveries(${most}) as n`),
    clockOffsetSeconds: () => bounded(clockOffsetSeconds(sql)),
    /** Returns the purge days that have come and whose records are still needed. */
    unsettledDays: async (): Promise<string[]> =>
      (await bounded(sql<{ day: string }[]>`select unsettled_days() as day`)).map(({ day }) => day),
    /** Ends messages by name that still wait when their retention is over, before their records are dropped. */
    endOutlived: (size: OutlivedPage) => endOutlived(sql, bounded, size),
    /** Makes partitions ahead and drops expired ones. One worker at a time does this; the others return at once. */
    maintain: () => maintainPartitions(sql, bounded),
    /** Makes partitions ahead and nothing else; as `maintain`, one worker at a time. */
    makePartitions: () => makePartitions(sql, bounded),
    /** Deletes secrets that were replaced more than a quarter of an hour ago. */
    async forgetReplacedSecrets(): Promise<void> {
      await bounded(sql`select forget_replaced_secrets()`);
    },
  };
}
