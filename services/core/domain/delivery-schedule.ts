const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/**
 * Delay after the n-th call of a delivery, as Standard Webhooks recommends; after the last delay and call the delivery is
 * exhausted.
 */
const DELAYS_MS = [
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
] as const;
/** Relative jitter in both directions: deliveries that failed together are retried at different times. */
const JITTER = 0.2;

/**
 * Returns the milliseconds until the next call of a delivery; null if the delivery is exhausted.
 * @param attempts number of calls made, 1 or more.
 * @param random uniform in [0, 1).
 */
export function deliveryDelayMs(attempts: number, random: number): number | null {
  const delay = DELAYS_MS[attempts - 1];
  return delay === undefined ? null : Math.round(delay * (1 - JITTER + 2 * JITTER * random));
}
