/** Quadratic work is slow in every try; a garbage collection affects only one of them. */
const TRIES_MAX = 3;
/** Durations below this are not distinguishable from zero. */
const FLOOR_MS = 2;

/**
 * Checks whether work on a long input takes more than `timesMax` times the processor time of work on a short one, in each of
 * several tries.
 * @returns both durations of the last try, for a message; undefined where one try was below the limit.
 */
export async function slowGrowth(
  short: () => unknown,
  long: () => unknown,
  timesMax: number,
): Promise<string | undefined> {
  for (let tries = 1; ; tries++) {
    const [shortMs, longMs] = [await leastCpuMs(short), await leastCpuMs(long)];
    if (longMs <= timesMax * Math.max(shortMs, FLOOR_MS)) return undefined;
    if (tries === TRIES_MAX) return `${shortMs} ms, ${longMs} ms`;
  }
}

/** Returns the processor time of this process for some work, in milliseconds: the least of three measurements. */
export async function leastCpuMs(work: () => unknown): Promise<number> {
  let least = Infinity;
  for (let i = 0; i < 3; i += 1) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1_000);
  }
  return least;
}
