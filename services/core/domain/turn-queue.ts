import { createFifo, type Fifo } from './fifo.ts';

/**
 * A line with an order between owners: one item of each in turn, and each owner's own in the order they came. Whoever
 * has much waiting makes nobody else wait longer than one turn.
 */
export type TurnQueue<Item> = {
  push(owner: string, item: Item): void;
  /**
   * At most `most` items. Who came after the last turn's end is before those who were served in it.
   * @param mayTake Says who is passed over for now and keeps its place, by its next item. Default: nobody is.
   */
  take(most: number, mayTake?: (owner: string, next: Item) => boolean): Item[];
  readonly size: number;
};

export function createTurnQueue<Item>(): TurnQueue<Item> {
  /** Those with something waiting, in the order of their turns. */
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
      // A map is walked in the order of insertion, and meets again what is put back at its end.
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
