import { DAY_MS } from '../text/duration.ts';
import type { Category } from './message-options.ts';

const LIFETIME_MS = { transactional: DAY_MS, marketing: DAY_MS, otp: 600_000 } as const;

/** Returns the default lifetime of a message in milliseconds; never longer than its record is kept. */
export function lifetimeOf(category: Category, retentionDays: number): number {
  return Math.min(LIFETIME_MS[category], retentionDays * DAY_MS);
}
