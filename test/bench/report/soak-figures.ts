import { median } from '../measure/percentile.ts';
import { soakPlan } from '../measure/soak-plan.ts';
import type { SoakSlice } from '../measure/soak-slice.ts';
import type { Soak } from '../measure/soak.ts';

export type SoakFigures = {
  /** Ratio of the last window to the first. */
  readonly throughput: number;
  /** 99th percentile from acceptance to the call, first window to last: below 1 where latency has grown. */
  readonly deliverP99: number;
  /** Ratio of the rate that the service sustains after the last slice to that before the first. */
  readonly sustained: number;
  /** By process: ratio of the last third of its life to the second, which shows growth after the warm-up. */
  readonly memory: Readonly<Record<string, number>>;
};

/** Returns NaN figures until the soak is complete. */
export function soakFigures(soak: Soak): SoakFigures {
  const { slices, sustainedAfter, sustainedBefore, soakMinutes } = soak;
  const plan = soakPlan(soakMinutes);
  const isDone = slices.length === plan.slices;
  const [first, last] = isDone ? [slices.slice(0, plan.window), slices.slice(-plan.window)] : [[], []];
  // A restarted process is not comparable with the one before it.
  const alive = isDone ? slices.filter(({ start }) => start === soak.starts) : [];
  const third = Math.floor(alive.length / 3);
  const [middle, end] = third > 0 ? [alive.slice(-2 * third, -third), alive.slice(-third)] : [[], []];
  const delivered = (of: readonly SoakSlice[]): number => sliceMedian(of, (one) => one.deliveredPerSecond);
  const p99 = (of: readonly SoakSlice[]): number => sliceMedian(of, (one) => one.figures['deliverP99Ms']);
  return {
    throughput: delivered(last) / delivered(first),
    deliverP99: p99(first) / p99(last),
    sustained: (sustainedAfter ?? Number.NaN) / (sustainedBefore ?? Number.NaN),
    memory: Object.fromEntries(
      Object.keys(slices[0]?.memory ?? {}).map((name) => [
        name,
        sliceMedian(end, (one) => one.memory[name]) / sliceMedian(middle, (one) => one.memory[name]),
      ]),
    ),
  };
}

/** A file holds NaN as null; such values are left out. */
export function sliceMedian(
  slices: readonly SoakSlice[],
  pick: (slice: SoakSlice) => number | null | undefined,
): number {
  const found = slices.map(pick).filter((value) => value !== null && value !== undefined);
  return median(found.filter((value) => !Number.isNaN(value)));
}
