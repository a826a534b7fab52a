import { z } from 'zod';

/** A point in time as text, with a time zone. */
export function timeField(): z.ZodISODateTime {
  return z.iso.datetime({ offset: true, message: 'Must be an ISO 8601 time with a time zone' });
}
