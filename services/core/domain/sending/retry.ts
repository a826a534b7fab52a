import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../text/duration.ts';

/** Delay before the n-th retry; from the last entry on, every two hours until the message expires. */
export const RETRY_DELAYS_MS = [
  0,
  15 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  15 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
  2 * HOUR_MS,
] as const;
/** Jitter is only added, never subtracted: 0 to 20 %. */
const RETRY_JITTER = 0.2;
/** Delay before the one retry of an ambiguous call: time for a provider that is merely slow to finish. */
export const AMBIGUOUS_RETRY_MS = 2 * SECOND_MS;
/**
 * How long a message waits for an account with a refused credential, by number of waits; a longer wait that the provider requests
 * is respected.
 */
const PROVIDER_WAITS_MS = [30 * SECOND_MS, MINUTE_MS, 2 * MINUTE_MS, 5 * MINUTE_MS] as const;
/** How long a throttled message waits, by number of waits; a longer wait that the provider requests is respected. */
const THROTTLE_WAITS_MS = [SECOND_MS, 2 * SECOND_MS, 5 * SECOND_MS, 15 * SECOND_MS, MINUTE_MS] as const;

function nth(delays: readonly number[], n: number): number {
  return delays[Math.min(n, delays.length - 1)] ?? 0;
}

/**
 * Returns the milliseconds until retry number `retry` (0 is the first).
 * @param random uniform in [0, 1).
 * @param retryAfterMs the wait that the provider requested; the minimum of the result.
 */
export function retryDelayMs(retry: number, random: number, retryAfterMs = 0): number {
  const delay = nth(RETRY_DELAYS_MS, retry);
  return Math.max(Math.round(delay * (1 + RETRY_JITTER * random)), retryAfterMs);
}

/** Returns the milliseconds until a message retries an account that is not ready. */
export function providerWaitMs(waits: number, random: number, retryAfterMs = 0): number {
  return Math.max(Math.round(nth(PROVIDER_WAITS_MS, waits) * (1 + RETRY_JITTER * random)), retryAfterMs);
}

/** Returns the milliseconds until a throttled message is retried. */
export function throttleWaitMs(waits: number, random: number, retryAfterMs = 0): number {
  return Math.max(Math.round(nth(THROTTLE_WAITS_MS, waits) * (1 + RETRY_JITTER * random)), retryAfterMs);
}
