import { createFifo, type Fifo } from './fifo.ts';

/**
 * A queue that is fair to owners: it returns one item of each owner in turn, and each owner's items first in, first out. An owner
 * with many items delays no other by more than one turn.
 */
export type TurnQueue<Item> = {
  push(owner: string, item: Item): void;
  /**
   * Removes and returns at most `most` items. Owners that arrived after the last turn come before those that it served.
   * @param mayTake called with an owner's next item; if false, the owner is skipped and keeps its turn. Default: true.
   */
  take(most: number, mayTake?: (owner: string, next: Item) => boolean): Item[];
  readonly size: number;
};

export function createTurnQueue<Item>(): TurnQueue<Item> {
  /** Owners with items, in the order of their turns. */
  const lines = new Map<string, Fifo<Item>>();
  let size = 0;

  return {
    push(owner, item) {
      let line = lines.get(owner);
      if (line === undefined) {
        line = createFifo();
        lines.set(owner, line);
      }
      line.push(item);
      size++;
    },
    take(most, mayTake = () => true) {
      const taken: Item[] = [];
      // A map iterates in insertion order, and reaches entries that are inserted again at its end.
      for (const [owner, line] of lines) {
        if (taken.length >= most) break;
        if (!mayTake(owner, line.first as Item)) continue;
        taken.push(line.shift() as Item);
        lines.delete(owner);
        if (line.size > 0) lines.set(owner, line);
      }
      size -= taken.length;
      return taken;
    },
    get size() {
      return size;
    },
  };
}
