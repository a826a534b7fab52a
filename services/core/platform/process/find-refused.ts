import { databaseFaultOf } from '#core/domain/database-fault.ts';

/**
 * Which of the items the database refuses, by halves. Nothing is left stored.
 * @param probe tries to store some of them, leaves nothing behind, and throws what the database throws.
 * @param probesMax in all: where more items are at fault than that finds, nothing is known of any.
 * @returns their places in the list, in order; undefined where that many probes did not find all.
 * @throws what says nothing against an item, such as a database that is away.
 */
export async function findRefused<Item>(
  items: readonly Item[],
  probe: (items: readonly Item[]) => Promise<void>,
  probesMax: number,
): Promise<readonly { readonly index: number; readonly error: unknown }[] | undefined> {
  const refused: { index: number; error: unknown }[] = [];
  // That all of them together are refused is known.
  const suspects = halves(0, items.length);
  for (let probes = 0; suspects.length > 0; probes++) {
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
