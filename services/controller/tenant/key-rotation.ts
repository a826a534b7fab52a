import { DAY_MS } from '#core/domain/text/duration.ts';

/** Returns when the key is due for its next version; undefined for never. */
export function nextRotation(rotatedAt: Date, periodDays: number): Date | undefined {
  return periodDays === 0 ? undefined : new Date(rotatedAt.getTime() + periodDays * DAY_MS);
}
