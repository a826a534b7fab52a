/** First in, first out. Shifting an array is linear; compacting one now and then is not. */
export type Fifo<Item> = {
  push(item: Item): void;
  shift(): Item | undefined;
  /** What `shift` would give. */
  readonly first: Item | undefined;
  readonly size: number;
};

/** Places before the head that are not worth moving what comes after them. */
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
