import { quantileOf } from '../tenant/time-buckets.ts';
import { deliveryRateOf } from '../tenant/usage-query.ts';

/** Counts are stored by periods of this length, and a queried span begins with a period. */
export const HEALTH_PERIOD_MINUTES = 5;

/** Totals of an account's calls and receipts over a span. */
export type AccountCounts = {
  /** Calls by their meaning for the account (`call-end.ts`). */
  readonly accepted: number;
  readonly refused: number;
  readonly failed: number;
  /** Messages by the receipts of the span; negative if more messages were later reported with the opposite result. */
  readonly delivered: number;
  readonly undelivered: number;
  /** Calls by duration (`time-buckets.ts`). */
  readonly callTimes: readonly number[];
};

export type AccountHealth = Omit<AccountCounts, 'callTimes'> & {
  readonly calls: number;
  /** Accepted calls among accepted and failed ones; null without any of them. */
  readonly successRate: number | null;
  /** Median and 95th percentile of the call durations in milliseconds. */
  readonly callTime: { readonly p50: number; readonly p95: number } | null;
  /** Delivered messages among those with a final receipt; null without any. */
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
