export type SoakPlan = {
  /** The run is a row of slices, each measured by itself; a run that was ended goes on with the next one. */
  readonly slices: number;
  readonly sliceMs: number;
  /** Slices of the first and of the last window, which are compared. */
  readonly window: number;
  /** Slices while which an old snapshot is held open: from the first up to before the second. */
  readonly snapshot: readonly [from: number, until: number];
};

const SLICE_SECONDS_MAX = 60;
const SLICE_SECONDS_MIN = 5;
const WINDOW_MINUTES = 10;

/** Of a run of whole minutes: an hour is sixty slices, windows of ten minutes, a snapshot from its 24th minute to its 36th. */
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
