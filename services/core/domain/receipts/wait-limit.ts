import { HOUR_MS } from '../text/duration.ts';
import type { DueReceipt } from './due-receipt.ts';

/**
 * Maximum number of one account's receipts that wait for their message. Receipts that arrive before their call is recorded are as
 * many as calls are under way, and wait for seconds; more than that means that the account is shared with another system.
 */
export const WAITING_REPORTS_MAX = 10_000;
/** Receipts that have waited longer may occupy only half of that number; the other half is left to new ones. */
const LONG_MS = 10 * 60_000;

const WAIT_MS_MIN = 1_000;
const WAIT_MS_MAX = HOUR_MS;

/**
 * Returns a function that decides whether a receipt may wait, by the number of its account's waiting receipts. Simulators'
 * receipts always may, because there are no more of them than messages.
 */
export function createWaitLimit(): (one: DueReceipt) => boolean {
  const waiting = new Map<string, number>();
  return ({ accountId, waiting: isBack, waitingOfAccount, waitedMs }) => {
    if (accountId === null) return true;
    const others = (waiting.get(accountId) ?? waitingOfAccount ?? 0) - (isBack ? 1 : 0);
    const isIn = others < (waitedMs > LONG_MS ? WAITING_REPORTS_MAX / 2 : WAITING_REPORTS_MAX);
    waiting.set(accountId, isIn ? others + 1 : others);
    return isIn;
  };
}

/** Returns when a receipt is looked at again, in milliseconds: the longer it has waited, the later. */
export function waitMs({ waitedMs }: Pick<DueReceipt, 'waitedMs'>): number {
  return Math.min(Math.max(WAIT_MS_MIN, waitedMs), WAIT_MS_MAX);
}
