/**
 * Lengths of time are kept as counts in buckets of a logarithmic scale, so that those of any hours, days and accounts can be
 * added up. Bucket 0 holds what is below a millisecond, bucket n what is from 2^((n-1)/4) to 2^(n/4) ms; the last one has
 * no end. SQL `time_bucket` says the same.
 */
const PER_DOUBLING = 4;
/** From some ten days on. */
export const LAST_TIME_BUCKET = 120;

/** The most that a quantile is wrong, as a part of what it should be; besides half a millisecond. */
export const QUANTILE_ERROR = 2 ** (1 / (2 * PER_DOUBLING)) - 1;

/** @param ms below zero, as after a clock went back, counts as 0. */
export function timeBucket(ms: number): number {
  return ms < 1 ? 0 : Math.min(1 + Math.floor(Math.log2(ms) * PER_DOUBLING), LAST_TIME_BUCKET);
}

/**
 * The time in whole milliseconds that a share of all times does not exceed, give or take `QUANTILE_ERROR`: the middle, by ratio,
 * of the bucket that holds it; of the last one its beginning.
 * @param counts by bucket from 0 on; what is missing at the end is 0.
 * @param share above 0, at most 1.
 * @returns null where nothing was counted.
 */
export function quantileOf(counts: readonly number[], share: number): number | null {
  const rank = share * counts.reduce((sum, n) => sum + n, 0);
  let passed = 0;
  for (const [bucket, n] of counts.entries()) {
    passed += n;
    if (n > 0 && passed >= rank) return middleOf(bucket);
  }
  return null;
}

function middleOf(bucket: number): number {
  if (bucket === 0) return 0;
  const steps = bucket === LAST_TIME_BUCKET ? bucket - 1 : bucket - 0.5;
  return Math.round(2 ** (steps / PER_DOUBLING));
}
