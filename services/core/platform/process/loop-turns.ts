import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Resolves when the next piece of work may be done, synchronously and at once. Pieces are admitted one after the other, in the
 * order of the calls.
 * @param weight weight of the piece.
 */
export type LoopTurns = (weight: number) => Promise<void>;

/**
 * Creates turns that yield to the event loop between groups of pieces of at most `weightMax` together; a piece that is heavier by
 * itself gets a turn of its own.
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
