import { DAY_MS } from '../text/duration.ts';

const WEEK_MS = 7 * DAY_MS;
/** A Monday before the first message. */
const FIRST_MONDAY = Date.UTC(2024, 0, 1);

/**
 * Returns the Monday (UTC, YYYY-MM-DD) on which the record of a message may be dropped: the first one at whose midnight its
 * retention has ended. The schema's function `purge_day` returns the same.
 * @param acceptedAt milliseconds since the epoch.
 */
export function purgeDay(acceptedAt: number, retentionDays: number): string {
  return mondayOf(Math.ceil((acceptedAt + retentionDays * DAY_MS - FIRST_MONDAY) / WEEK_MS));
}

/** Returns the Monday `week` weeks after 2024-01-01. */
export function mondayOf(week: number): string {
  return MONDAYS[week] ?? monday(week);
}

/** Returns the weeks from 2024-01-01 to a day; an integer for a Monday. */
export function weekOf(day: string): number {
  return WEEKS.get(day) ?? (Date.parse(day) - FIRST_MONDAY) / WEEK_MS;
}

function monday(week: number): string {
  return new Date(FIRST_MONDAY + week * WEEK_MS).toISOString().slice(0, 10);
}

/**
 * All Mondays that ids can encode, precomputed: each message needs one, and formatting and parsing a date costs more than the
 * rest of its id.
 */
const MONDAYS: readonly string[] = Array.from({ length: 2 ** 12 }, (_, week) => monday(week));
const WEEKS: ReadonlyMap<string, number> = new Map(MONDAYS.map((day, week) => [day, week]));
