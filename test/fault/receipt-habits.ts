import { FIRST_ACCOUNTS } from './accounts.ts';

/** The first account of a route sends no reports for this number; any other account sends the usual ones. */
export const UNREPORTED_NUMBER = '+15550000017';
/** The first account of a route reports on this number shortly before or after the receipt timeout. */
export const LATE_NUMBER = '+15550000018';
/** The shortest receipt timeout that the API allows. */
export const RECEIPT_TIMEOUT_MS = 10_000;

/** Added to the time at which the provider would report otherwise. */
const LATE_MS = { min: RECEIPT_TIMEOUT_MS - 1_000, max: RECEIPT_TIMEOUT_MS + 3_000 };

/**
 * Returns by how many milliseconds an account delays a report beyond the usual; null: it never reports.
 * @param draw uniform in [0, 1).
 */
export function reportDelayMs(account: string, to: string, draw: number): number | null {
  if (!account.startsWith(FIRST_ACCOUNTS)) return 0;
  if (to === UNREPORTED_NUMBER) return null;
  return to === LATE_NUMBER ? LATE_MS.min + draw * (LATE_MS.max - LATE_MS.min) : 0;
}
