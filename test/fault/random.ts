/** A stream of numbers that a seed decides, so that a run can be told again. */
export type Random = {
  /** Uniform in [0, 1). */
  readonly next: () => number;
  /** A whole number from `min` to `max`, both included. */
  readonly whole: (min: number, max: number) => number;
  readonly pick: <T>(items: readonly T[]) => T;
  /** A stream of its own, which what is drawn elsewhere does not move. */
  readonly fork: () => Random;
};

/** Mulberry32: 32 bits of state are enough to choose faults with. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    whole: (min, max) => min + Math.floor(next() * (max - min + 1)),
    pick(items) {
      const item = items[Math.floor(next() * items.length)];
      if (item === undefined) throw new RangeError('nothing to pick from');
      return item;
    },
    fork: () => seededRandom(Math.floor(next() * 2 ** 32)),
  };
}
