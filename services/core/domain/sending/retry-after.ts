const WAIT_MS_MIN = 1_000;
const WAIT_MS_MAX = 15 * 60_000;

/**
 * Parses a Retry-After header: delta-seconds (including fractions, which some providers send) or an HTTP date. Clamps the
 * result to 1 s .. `msMax`, by default 15 min. Returns undefined for anything else, so that an invalid header never changes
 * the retry time.
 */
export function retryAfterMs(
  header: string | undefined,
  now: number,
  msMax = WAIT_MS_MAX,
): number | undefined {
  const text = header?.trim() ?? '';
  const wait = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) * 1_000 : httpDate(text) - now;
  if (Number.isNaN(wait)) return undefined;
  return Math.min(Math.max(Math.round(wait), WAIT_MS_MIN), msMax);
}

/** A time of day, and after it at most a year. */
const ENDS_WITHOUT_ZONE = /:\d\d(?: \d{4})?$/;

/**
 * `Date.parse` accepts much more than an HTTP date ("-5", "1 apple"), so the weekday is checked first. The oldest of the three
 * formats names no time zone, and all of them are in GMT. An offset, which none of them has, is honoured.
 */
function httpDate(text: string): number {
  if (!/^[A-Za-z]{3,9},? /.test(text)) return Number.NaN;
  return Date.parse(ENDS_WITHOUT_ZONE.test(text) ? `${text} GMT` : text);
}
