import { databaseFaultOf } from '#core/domain/database-fault.ts';

/**
 * Stores all items at once; where the database refuses one, stores by halves, so that only that one fails.
 * @param store one result for each item, in order.
 * @param fail what becomes of the one item that is refused, or of all that failed for another reason.
 * @throws what `fail` throws: then nothing says what became of the other half.
 */
export async function storeByHalves<Item, Result>(
  items: readonly Item[],
  store: (items: readonly Item[]) => Promise<readonly Result[]>,
  fail: (items: readonly Item[], error: unknown) => readonly Result[] | Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  try {
    return await store(items);
  } catch (error) {
    if (items.length < 2 || databaseFaultOf(error) !== 'row') return await fail(items, error);
    const middle = Math.ceil(items.length / 2);
    const first = await storeByHalves(items.slice(0, middle), store, fail);
    return [...first, ...(await storeByHalves(items.slice(middle), store, fail))];
  }
}
