import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';

/**
 * Returns which items the database rejects, found by bisection. Nothing stays stored.
 * @param probe tries to store some of the items, rolls back, and throws the database's error.
 * @param probesMax maximum number of probes.
 * @param most the search ends when it has found so many. Default: it finds all.
 * @returns the indexes of the rejected items, in order; undefined if that many probes did not find them.
 * @throws errors that no item causes, such as an unavailable database.
 */
export async function findRefused<Item>(
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
