import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Resolves when the next piece of work may be done, synchronously and at once. Pieces go one after the other, in the order
 * in which they ask.
 * @param weight of the piece.
 */
export type LoopTurns = (weight: number) => Promise<void>;

/**
 * Leaves the event loop to others between pieces of work that come to `weightMax` together; one that alone is heavier has a
 * turn of its own.
 */
export function createLoopTurns(weightMax: number): LoopTurns {
  let done = 0;
  let last = Promise.resolve();

  async function begin(weight: number): Promise<void> {
    if (done > 0 && done + weight > weightMax) {
      await nextTurn();
      done = 0;
    }
    done += weight;
  }

  return (weight) => {
    last = last.then(() => begin(weight));
    return last;
  };
}
