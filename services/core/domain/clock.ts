/**
 * The wall clock in milliseconds since the epoch, for times that are stored, shown or compared with another machine's. It can be set
 * back. A number `now` is a reading of it.
 */
export type EpochClock = (() => number) & { readonly clock?: 'epoch' };

/**
 * A clock in milliseconds that is never set back, for waits and durations within this process: nothing waits for as long as the wall
 * clock was ahead. A number `monotonicNow` is a reading of it.
 */
export type MonotonicClock = (() => number) & { readonly clock?: 'monotonic' };

export const epochMs: EpochClock = () => Date.now();
export const monotonicMs: MonotonicClock = () => performance.now();
