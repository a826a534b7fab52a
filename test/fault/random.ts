/** A stream of random numbers that depends on the seed alone, so that a run can be repeated. */
export type Random = {
  /** Uniform in [0, 1). */
  readonly next: () => number;
  /** Returns an integer from `min` to `max`, both included. */
  readonly whole: (min: number, max: number) => number;
  readonly pick: <T>(items: readonly T[]) => T;
  /** Returns an independent stream, which draws from this one do not change. */
  readonly fork: () => Random;
};

/** Creates a Mulberry32 stream: its 32 bits of state are enough to choose faults. */
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
