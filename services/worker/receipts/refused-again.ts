import { DAY_MS, HOUR_MS, MINUTE_MS } from '#core/domain/text/duration.ts';
import type { ForgeryReason } from '#providers/receipt.ts';

/** Verdicts on signed calls, which change when the account's secret or settings, or `PUBLIC_BASE_URL`, are mended. */
const MENDABLE: ReadonlySet<ForgeryReason> = new Set(['signature_mismatch', 'unknown_sender']);

/**
 * Returns when a call with a refused signature is read again, in milliseconds; undefined if it is given up. A secret or a public
 * URL that is wrong refuses genuine calls, which the vendor does not repeat after a 2xx. So they are read again for a day, each
 * time when they are twice as old, within a minute and an hour.
 * @param ageMs time since its arrival.
 */
export function refusedAgainMs(reason: ForgeryReason, ageMs: number): number | undefined {
  if (!MENDABLE.has(reason) || ageMs >= DAY_MS) return undefined;
  return Math.min(Math.max(ageMs, MINUTE_MS), HOUR_MS);
}
