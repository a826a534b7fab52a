const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;
/** A Monday before there were any messages. */
const FIRST_MONDAY = Date.UTC(2024, 0, 1);

/**
 * The Monday (UTC, YYYY-MM-DD) on which the record of a message may go: the first one at whose midnight its retention is
 * over. The schema's function `purge_day` says the same.
 * @param acceptedAt Milliseconds since the epoch.
 */
export function purgeDay(acceptedAt: number, retentionDays: number): string {
  return mondayOf(Math.ceil((acceptedAt + retentionDays * DAY_MS - FIRST_MONDAY) / WEEK_MS));
}

/** The Monday that many weeks after 2024-01-01. */
export function mondayOf(week: number): string {
  return MONDAYS[week] ?? monday(week);
}

/** Weeks from 2024-01-01 to a day; a whole number for a Monday. */
export function weekOf(day: string): number {
  return WEEKS.get(day) ?? (Date.parse(day) - FIRST_MONDAY) / WEEK_MS;
}

function monday(week: number): string {
  return new Date(FIRST_MONDAY + week * WEEK_MS).toISOString().slice(0, 10);
}

/** As many as ids can name: each message asks for one, and to write and to read a date costs more than all else of its id. */
const MONDAYS: readonly string[] = Array.from({ length: 2 ** 12 }, (_, week) => monday(week));
const WEEKS: ReadonlyMap<string, number> = new Map(MONDAYS.map((day, week) => [day, week]));
