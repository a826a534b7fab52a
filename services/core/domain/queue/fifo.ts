/** A first-in, first-out queue. Array.shift is linear; this queue compacts its array only now and then. */
export type Fifo<Item> = {
  push(item: Item): void;
  shift(): Item | undefined;
  /** The item that `shift` would return. */
  readonly first: Item | undefined;
  readonly size: number;
};

/** Up to this many empty places before the head the array is not compacted, because moving the rest costs more. */
const LOOSE_MAX = 512;

export function createFifo<Item>(): Fifo<Item> {
  const items: Item[] = [];
  let head = 0;

  return {
    push(item) {
      items.push(item);
    },
    shift() {
      if (head === items.length) return undefined;
      const item = items[head] as Item;
      head++;
      if (head === items.length) {
        items.length = 0;
        head = 0;
      } else if (head > LOOSE_MAX && head * 2 > items.length) {
        items.splice(0, head);
        head = 0;
      }
      return item;
    },
    get first() {
      return items[head];
    },
    get size() {
      return items.length - head;
    },
  };
}
