import { quantileOf } from './time-buckets.ts';
import { deliveryRateOf } from './usage-query.ts';

/** Counts are kept by periods of this length; a span that ends now begins with one of them. */
export const HEALTH_PERIOD_MINUTES = 5;

/** What an account's calls and receipts of a span came to. */
export type AccountCounts = {
  /** Calls by how they speak of the account (`call-end.ts`). */
  readonly accepted: number;
  readonly refused: number;
  readonly failed: number;
  /** Messages by what a receipt said in the span; below zero where more of them were said to be the other after all. */
  readonly delivered: number;
  readonly undelivered: number;
  /** Calls by length (`time-buckets.ts`). */
  readonly callTimes: readonly number[];
};

export type AccountHealth = Omit<AccountCounts, 'callTimes'> & {
  readonly calls: number;
  /** Accepted calls among those that speak of the account; null where none does. */
  readonly successRate: number | null;
  /** Milliseconds that half and 95 % of the calls did not exceed. */
  readonly callTime: { readonly p50: number; readonly p95: number } | null;
  /** Delivered messages among those that a receipt told the end of; null where none did. */
  readonly deliveryRate: number | null;
};

export function accountHealthOf(counts: AccountCounts): AccountHealth {
  const { accepted, refused, failed, callTimes } = counts;
  const delivered = Math.max(0, counts.delivered);
  const undelivered = Math.max(0, counts.undelivered);
  const [p50, p95] = [quantileOf(callTimes, 0.5), quantileOf(callTimes, 0.95)];
  return {
    calls: accepted + refused + failed,
    accepted,
    refused,
    failed,
    successRate:
      accepted + failed === 0 ? null : Math.round((accepted / (accepted + failed)) * 10_000) / 10_000,
    callTime: p50 === null || p95 === null ? null : { p50, p95 },
    delivered,
    undelivered,
    deliveryRate: deliveryRateOf({ delivered, undelivered }),
  };
}
