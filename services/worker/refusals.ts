import { LRUCache } from 'lru-cache';

/**
 * Tells a row that the database refuses from a fault that refuses every row, such as a damaged index or an error in a function:
 * the latter is repaired, and no row may be given up for it.
 */
export type Refusals = {
  /** Notes that the database took other rows. */
  noteTaken(): void;
  /**
   * Notes that a row was refused.
   * @returns whether the database has taken others since the row was refused before, and so refuses this one alone.
   */
  isConfirmed(id: number): boolean;
};

const ROWS_MAX = 1_000;

export function createRefusals(): Refusals {
  /** When rows were refused first, by `performance.now()`. */
  const refusedAt = new LRUCache<number, number>({ max: ROWS_MAX });
  let takenAt = Number.NEGATIVE_INFINITY;
  return {
    noteTaken() {
      takenAt = performance.now();
    },
    isConfirmed(id) {
      const since = refusedAt.get(id);
      if (since === undefined) refusedAt.set(id, performance.now());
      return since !== undefined && since < takenAt;
    },
  };
}
