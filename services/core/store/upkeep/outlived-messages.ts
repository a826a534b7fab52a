import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { Bounded } from '../query/bounded-queries.ts';
import { tryMaintenanceLock } from './partitions.ts';

/** How many messages one statement reads and ends at most. */
export type OutlivedPage = { readonly readsMax: number; readonly most: number };

/**
 * Ends messages whose retention is over, page by page. One worker at a time reads the live messages, the one that makes and drops
 * partitions.
 * @param bounded gives one page its deadline.
 * @returns how many it ended; `elsewhere` if another worker has the maintenance lock.
 */
export async function endOutlived(
  sql: Sql,
  bounded: Bounded,
  { readsMax, most }: OutlivedPage,
): Promise<number | 'elsewhere'> {
  let total = 0;
  let after: number | null = 0;
  while (after !== null) {
    const from: number = after;
    const page = await bounded(
      sql.begin(async (tx) => {
        if (!(await tryMaintenanceLock(tx))) return undefined;
        const [row] = await tx<{ ended: number; next: number | null }[]>`
          select ended, next_seq as next from end_outlived(${from}, ${readsMax}, ${most})`;
        return row;
      }),
    );
    if (page === undefined) return 'elsewhere';
    total += page.ended;
    after = page.next;
  }
  return total;
}
