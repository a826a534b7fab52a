import { isRowAtFault } from './database-fault.ts';

/**
 * Stores or reads all items in one call; if the database rejects an item, splits the items by bisection, so that only that item
 * fails.
 * @param run returns one result for each item, in order.
 * @param fail returns the results of the one rejected item, or of all items that failed for another reason.
 * @throws what `fail` throws, after the other half was run.
 */
export async function bisectFaults<Item, Result>(
  items: readonly Item[],
  run: (items: readonly Item[]) => Promise<readonly Result[]>,
  fail: (items: readonly Item[], error: unknown) => readonly Result[] | Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  try {
    return await run(items);
  } catch (error) {
    if (items.length < 2 || !isRowAtFault(error)) return await fail(items, error);
    const middle = Math.ceil(items.length / 2);
    const results: Result[] = [];
    const faults: unknown[] = [];
    for (const half of [items.slice(0, middle), items.slice(middle)]) {
      try {
        results.push(...(await bisectFaults(half, run, fail)));
      } catch (fault) {
        faults.push(fault);
      }
    }
    if (faults.length > 0) throw faults[0];
    return results;
  }
}
