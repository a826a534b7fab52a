export type SoakPlan = {
  /** Number of slices, each measured by itself. An interrupted run continues with the next slice. */
  readonly slices: number;
  readonly sliceMs: number;
  /** Number of slices in the first and in the last window, which are compared. */
  readonly window: number;
  /** Slices during which an old snapshot is held open, from `from` to before `until`. */
  readonly snapshot: readonly [from: number, until: number];
};

const SLICE_SECONDS_MAX = 60;
const SLICE_SECONDS_MIN = 5;
const WINDOW_MINUTES = 10;

/** Plans a run of whole minutes: an hour is sixty slices, windows of ten minutes, a snapshot from minute 24 to minute 36. */
export function soakPlan(minutes: number): SoakPlan {
  const sliceSeconds = Math.min(SLICE_SECONDS_MAX, Math.max(SLICE_SECONDS_MIN, minutes));
  const slices = Math.ceil((minutes * 60) / sliceSeconds);
  return {
    slices,
    sliceMs: sliceSeconds * 1_000,
    // A short run still has a first, a middle and a last part.
    window: Math.max(1, Math.min(Math.floor((WINDOW_MINUTES * 60) / sliceSeconds), Math.floor(slices / 3))),
    snapshot: [Math.floor(slices * 0.4), Math.ceil(slices * 0.6)],
  };
}
