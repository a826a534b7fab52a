/** A share of the memory that requests may take. */
export type Reservation = {
  /** Takes more for the same request. False, and nothing taken, where there is no room. */
  readonly grow: (bytes: number) => boolean;
  /** Gives all of it back; once is enough. */
  readonly release: () => void;
};

export type MemoryBudget = {
  /** Undefined where there is no room. */
  readonly reserve: (owner: string, bytes: number) => Reservation | undefined;
  /**
   * Waits for room for a while. Undefined where none has come by then, or where too many wait already.
   * @param gone Fires where nobody waits any more.
   */
  readonly await: (owner: string, bytes: number, gone: AbortSignal) => Promise<Reservation | undefined>;
  /** Bytes reserved now. */
  readonly taken: () => number;
};

type Waiting = {
  readonly owner: string;
  readonly bytes: number;
  readonly settle: (reservation: Reservation | undefined) => void;
};

/** Each that waits has what its connection had read already. */
const WAITING_PER_OWNER_MAX = 32;
const WAITING_MAX = 256;
/** A client that is told to come again sends all of its body again. */
const PATIENCE_MS = 2_000;

/**
 * Shares memory among owners. Nobody may hold more than what is left free after that: one alone gets half, a second half
 * of the rest, and whoever comes next finds room, however many there are.
 */
export function createMemoryBudget(bytesMax: number): MemoryBudget {
  const waiting = new Set<Waiting>();
  const owned = new Map<string, number>();
  let all = 0;

  function take(owner: string, bytes: number): boolean {
    const own = (owned.get(owner) ?? 0) + bytes;
    if (own > bytesMax - all - bytes) return false;
    all += bytes;
    owned.set(owner, own);
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
    let held = bytes;
    let isOver = false;
    return {
      grow(more) {
        if (isOver || !take(owner, more)) return false;
        held += more;
        return true;
      },
      release() {
        if (isOver) return;
        isOver = true;
        all -= held;
        const rest = (owned.get(owner) ?? 0) - held;
        if (rest > 0) owned.set(owner, rest);
        else owned.delete(owner);
        admit();
      },
    };
  }

  return {
    reserve,
    await(owner, bytes, gone) {
      const own = [...waiting].filter((one) => one.owner === owner).length;
      const isHopeless = bytes > bytesMax / 2 || gone.aborted;
      if (isHopeless || own >= WAITING_PER_OWNER_MAX || waiting.size >= WAITING_MAX) {
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
    taken: () => all,
  };
}
