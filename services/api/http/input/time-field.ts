import { z } from 'zod';

/** The earliest time that both the database and `Date` write with a four-digit year. */
const EARLIEST = Date.parse('0001-01-01T00:00:00Z');
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');

/** zod requires seconds, as RFC 3339 does; ISO 8601 does not, and Java's OffsetDateTime leaves them out where they are zero. */
const TIME = {
  pattern: new RegExp(
    [{ precision: null }, { precision: -1 }]
      .map((format) => z.regexes.datetime({ ...format, offset: true }).source)
      .join('|'),
  ),
};

const RULE = 'Must be an ISO 8601 time with a time zone';
/** The zone of a time in a query whose `+` was sent as it is: a query is read like a form, where that is a space. */
const DECODED_ZONE = /T[\d:.]+ \d\d:\d\d$/;

function rule({ input }: { readonly input?: unknown }): string {
  const isDecoded = typeof input === 'string' && DECODED_ZONE.test(input);
  return isDecoded ? `${RULE}: in a query its + is written %2B` : RULE;
}

/** A point in time as text with a time zone, with or without seconds; its year in UTC is 1 to 9999. */
export function timeField(): z.ZodISODateTime {
  return z.iso.datetime({ offset: true, error: rule, ...TIME }).check((context) => {
    // A text that is no time has no year.
    if (context.issues.length > 0) return;
    const time = Date.parse(context.value);
    if (time >= EARLIEST && time <= LATEST) return;
    const message = 'Must lie in the years 1 to 9999 of UTC';
    context.issues.push({ code: 'custom', input: context.value, params: { rule: 'range' }, message });
  });
}

/** The same, converted to UTC: the database does not accept every ISO 8601 time zone. */
export const utcTimeField = () => timeField().transform((time) => new Date(time).toISOString());
