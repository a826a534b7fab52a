/**
 * Durations are stored as counts in logarithmic buckets, so that counts of any hours, days and accounts can be added. Bucket 0
 * holds durations below a millisecond, bucket n those from 2^((n-1)/4) to 2^(n/4) ms; the last bucket is unbounded. SQL
 * `time_bucket` computes the same.
 */
const PER_DOUBLING = 4;
/** Holds durations of about ten days and more. */
export const LAST_TIME_BUCKET = 120;

/** Maximum relative error of a quantile; rounding adds up to half a millisecond. */
export const QUANTILE_ERROR = 2 ** (1 / (2 * PER_DOUBLING)) - 1;

/**
 * Returns the bucket of a duration.
 * @param ms a negative value, as after a clock went back, counts as 0.
 */
export function timeBucket(ms: number): number {
  return ms < 1 ? 0 : Math.min(1 + Math.floor(Math.log2(ms) * PER_DOUBLING), LAST_TIME_BUCKET);
}

/**
 * Returns the quantile in whole milliseconds, within `QUANTILE_ERROR`: the geometric middle of its bucket, or the beginning of
 * the last bucket.
 * @param counts by bucket from 0 on; missing ones at the end count as 0.
 * @param share above 0, at most 1.
 * @returns null if nothing was counted.
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
