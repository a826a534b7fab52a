import { databaseFaultOf, isRowAtFault } from './database-fault.ts';

/**
 * Stores or reads all items in one call; if the database rejects an item, splits the items by bisection, so that only that item
 * fails. The other halves stay stored.
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

/**
 * Returns which items the database rejects, found by bisection. Nothing stays stored: for items that are stored in one transaction
 * or not at all. `bisectFaults` is for items that do not depend on each other; it stores all but the rejected ones.
 * @param probe tries to store some of the items, rolls back, and throws the database's error.
 * @param probesMax maximum number of probes.
 * @param most the search ends when it has found so many. Default: it finds all.
 * @returns the indexes of the rejected items, in order; undefined if that many probes did not find them.
 * @throws errors that no item causes, such as an unavailable database.
 */
export async function findFaults<Item>(
  items: readonly Item[],
  probe: (items: readonly Item[]) => Promise<void>,
  probesMax: number,
  most = Number.POSITIVE_INFINITY,
): Promise<readonly { readonly index: number; readonly error: unknown }[] | undefined> {
  const refused: { index: number; error: unknown }[] = [];
  // The caller knows that all items together are rejected, so the search starts with the halves.
  const suspects = halves(0, items.length);
  for (let probes = 0; suspects.length > 0 && refused.length < most; probes++) {
    if (probes === probesMax) return undefined;
    const [from, to] = suspects.shift() as Range;
    try {
      await probe(items.slice(from, to));
    } catch (error) {
      if (databaseFaultOf(error) !== 'row') throw error;
      if (to - from === 1) refused.push({ index: from, error });
      else suspects.unshift(...halves(from, to));
    }
  }
  return refused;
}

type Range = readonly [from: number, to: number];

function halves(from: number, to: number): Range[] {
  if (to - from < 2) return from === to ? [] : [[from, to]];
  const middle = from + Math.ceil((to - from) / 2);
  return [
    [from, middle],
    [middle, to],
  ];
}
