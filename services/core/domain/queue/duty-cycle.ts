import type { MonotonicClock } from '../clock.ts';

/** Bounds the part of the time that a repeated piece of work takes: it is due again after fifty times its own duration. */
export type DutyCycle = {
  isDue(): boolean;
  /** Notes that the work begins. It stays due until it has ended: if it is broken off, it is to be repeated. */
  begun(): void;
  ended(): void;
};

/** Work takes at most one part in this many of the time. */
const PART = 50;

/** Returns how long work rests that took this time, in milliseconds. */
export const dutyRestMs = (tookMs: number): number => PART * tookMs;

/**
 * Creates a cycle whose work is due.
 * @param gapMsMin minimum time from an end until the work is due again.
 */
export function createDutyCycle(monotonicMs: MonotonicClock, gapMsMin = 0): DutyCycle {
  let begunAt = 0;
  let nextAt = Number.NEGATIVE_INFINITY;
  return {
    isDue: () => monotonicMs() >= nextAt,
    begun() {
      begunAt = monotonicMs();
      nextAt = Number.NEGATIVE_INFINITY;
    },
    ended() {
      const endedAt = monotonicMs();
      nextAt = endedAt + Math.max(gapMsMin, dutyRestMs(endedAt - begunAt));
    },
  };
}
