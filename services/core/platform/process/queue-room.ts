import { QueueFullError } from './micro-batch.ts';

/** Bounds what is inside a process: waiting, or in a batch. */
export type QueueRoom = {
  /**
   * Lets one in until what is returned is called, once.
   * @throws QueueFullError
   */
  readonly enter: (owner: string, bytes: number) => () => void;
};

type Share = { items: number; bytes: number };

/** One owner takes half of the room at most. That all together stay below `itemsMax` is for the queue to see to. */
export function createQueueRoom({
  itemsMax,
  bytesMax,
}: {
  readonly itemsMax: number;
  readonly bytesMax: number;
}): QueueRoom {
  const shares = new Map<string, Share>();
  let allBytes = 0;

  return {
    enter(owner, bytes) {
      const own = shares.get(owner) ?? { items: 0, bytes: 0 };
      if (allBytes + bytes > bytesMax || own.bytes + bytes > bytesMax / 2) {
        throw new QueueFullError('requests that wait take too much memory');
      }
      if (own.items >= itemsMax / 2) throw new QueueFullError('too many requests of one owner wait');
      shares.set(owner, own);
      allBytes += bytes;
      own.items += 1;
      own.bytes += bytes;
      return () => {
        allBytes -= bytes;
        own.items -= 1;
        own.bytes -= bytes;
        if (own.items === 0) shares.delete(owner);
      };
    },
  };
}
