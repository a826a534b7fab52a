import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../text/duration.ts';

/**
 * Delay after the n-th call of a delivery, as Standard Webhooks recommends; after the last delay and call the delivery is
 * exhausted.
 */
const DELAYS_MS = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
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
