export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

const ISO = /^P(?:(\d{1,6})W|(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9})S)?)?)$/;
const SHORT = /^(\d{1,9})([smhd])$/;
const UNIT_MS: Readonly<Record<string, number>> = { s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS };

/**
 * Returns the milliseconds of a duration in whole units from seconds to weeks, in ISO 8601 (`PT72H`, `P1DT12H`) or as one number
 * with its unit (`72h`, `3d`); undefined for any other text.
 */
export function parseDuration(text: string): number | undefined {
  const [, count, unit = ''] = SHORT.exec(text) ?? [];
  if (count !== undefined) return Number(count) * (UNIT_MS[unit] ?? 0);
  const parts = ISO.exec(text)?.slice(1);
  // At least one unit is required, and at least one after a T.
  if (parts === undefined || parts.every((part) => part === undefined) || text.endsWith('T'))
    return undefined;
  const [weeks, days, hours, minutes, seconds] = parts.map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  return (7 * weeks + days) * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS;
}
