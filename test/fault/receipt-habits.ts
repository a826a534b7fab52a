import { FIRST_ACCOUNTS } from './accounts.ts';

/** What the first account of a route reports nothing on, and any other account all that is usual. */
export const UNREPORTED_NUMBER = '+15550000017';
/** What the first account of a route reports on about when its route ceases to wait for that, shortly before or after. */
export const LATE_NUMBER = '+15550000018';
/** The least that a route may wait. */
export const RECEIPT_TIMEOUT_MS = 10_000;

/** From the moment that a report is due at a vendor. */
const LATE_MS = { min: RECEIPT_TIMEOUT_MS - 1_000, max: RECEIPT_TIMEOUT_MS + 3_000 };

/**
 * How long an account keeps a report on a message to itself beyond what is usual, in milliseconds; null: for ever.
 * @param draw uniform in [0, 1).
 */
export function reportDelayMs(account: string, to: string, draw: number): number | null {
  if (!account.startsWith(FIRST_ACCOUNTS)) return 0;
  if (to === UNREPORTED_NUMBER) return null;
  return to === LATE_NUMBER ? LATE_MS.min + draw * (LATE_MS.max - LATE_MS.min) : 0;
}
