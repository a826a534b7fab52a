import { QueueFullError } from './micro-batch.ts';

/** Bounds the requests inside a process, whether they wait or are in a batch. */
export type QueueRoom = {
  /**
   * Admits a request until the returned function is called, which must be once.
   * @throws QueueFullError
   */
  readonly enter: (owner: string, bytes: number) => () => void;
};

type Share = { items: number; bytes: number };

/** Creates the bounds. One owner may take at most half of them. The queue itself must keep the total below `itemsMax`. */
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
