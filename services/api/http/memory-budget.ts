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
  /** Bytes reserved now. */
  readonly taken: () => number;
};

/**
 * Shares memory among owners. Nobody may hold more than what is left free after that: one alone gets half, a second half
 * of the rest, and whoever comes next finds room, however many there are.
 */
export function createMemoryBudget(bytesMax: number): MemoryBudget {
  const owned = new Map<string, number>();
  let all = 0;

  function take(owner: string, bytes: number): boolean {
    const own = (owned.get(owner) ?? 0) + bytes;
    if (own > bytesMax - all - bytes) return false;
    all += bytes;
    owned.set(owner, own);
    return true;
  }

  return {
    reserve(owner, bytes) {
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
        },
      };
    },
    taken: () => all,
  };
}
