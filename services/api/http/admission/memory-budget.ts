import { createHoldings } from '#core/domain/queue/holdings.ts';
import { mayWait } from './may-wait.ts';

/** Memory reserved for one request. */
export type Reservation = {
  /** Reserves more for the same request. Returns false, and reserves nothing, when there is no room. */
  readonly grow: (bytes: number) => boolean;
  /** Releases the whole reservation; may be called more than once. */
  readonly release: () => void;
};

export type MemoryBudget = {
  /** Returns undefined when there is no room. */
  readonly reserve: (owner: string, bytes: number) => Reservation | undefined;
  /**
   * Waits for room for a limited time. Resolves to undefined when there is none by then, or when too many requests wait
   * already.
   * @param gone Aborts when the caller no longer waits.
   */
  readonly await: (owner: string, bytes: number, gone: AbortSignal) => Promise<Reservation | undefined>;
  /** Bytes currently reserved. */
  readonly taken: () => number;
};

type Waiting = {
  readonly owner: string;
  readonly bytes: number;
  readonly settle: (reservation: Reservation | undefined) => void;
};

/** Each waiting request still holds what its connection has already read. */
const ROOM = { perOwnerMax: 32, placesMax: 256 };
/** A client that is told to retry has to send its whole body again. */
const PATIENCE_MS = 2_000;

/**
 * Shares memory among owners. No owner may hold more than remains free afterwards: a single owner gets half, a second one
 * half of the rest, and so on, so that a new owner always finds room.
 */
export function createMemoryBudget(bytesMax: number): MemoryBudget {
  const waiting = new Set<Waiting>();
  const held = createHoldings();

  function take(owner: string, bytes: number): boolean {
    if (held.of(owner) + bytes > bytesMax - held.total - bytes) return false;
    held.add(owner, bytes);
    return true;
  }

  function admit(): void {
    for (const one of waiting) {
      const reservation = reserve(one.owner, one.bytes);
      if (reservation !== undefined) one.settle(reservation);
    }
  }

  function reserve(owner: string, bytes: number): Reservation | undefined {
    if (!take(owner, bytes)) return undefined;
    let reserved = bytes;
    let isOver = false;
    return {
      grow(more) {
        if (isOver || !take(owner, more)) return false;
        reserved += more;
        return true;
      },
      release() {
        if (isOver) return;
        isOver = true;
        held.add(owner, -reserved);
        admit();
      },
    };
  }

  return {
    reserve,
    await(owner, bytes, gone) {
      const own = [...waiting].filter((one) => one.owner === owner).length;
      const isHopeless = bytes > bytesMax / 2 || gone.aborted;
      if (isHopeless || !mayWait(ROOM, own, waiting.size)) {
        return Promise.resolve(undefined);
      }
      return new Promise((resolve) => {
        const one: Waiting = {
          owner,
          bytes,
          settle(reservation) {
            waiting.delete(one);
            clearTimeout(timer);
            gone.removeEventListener('abort', giveUp);
            resolve(reservation);
          },
        };
        const giveUp = (): void => one.settle(undefined);
        const timer = setTimeout(giveUp, PATIENCE_MS);
        gone.addEventListener('abort', giveUp);
        waiting.add(one);
      });
    },
    taken: () => held.total,
  };
}
