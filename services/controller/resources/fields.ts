import { z } from 'zod';

/** A DNS label, the format of most names in a cluster. */
export const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** A single line: no control characters. */
export const ONE_LINE = /^\P{Cc}*$/u;

type TextField = {
  readonly description: string;
  readonly min?: number;
  readonly max: number;
  /** Must work in JavaScript and in Go's RE2: no look-around, no back-references, no flag except `u`. */
  readonly pattern?: RegExp;
};

/** Text of `min` (default 1) to `max` Unicode code points, the unit that the API server counts. */
export function text({ description, min = 1, max, pattern }: TextField): z.ZodString {
  const bounded = z.string().refine((value) => {
    const { length } = Array.from(value);
    return length >= min && length <= max;
  }, `Must have ${min} to ${max} characters`);
  return (pattern === undefined ? bounded : bounded.regex(pattern)).meta({
    description,
    ...(min === 0 ? {} : { minLength: min }),
    maxLength: max,
  });
}

type NumberField = { readonly description: string; readonly min: number; readonly max: number };

/** A whole number from `min` to `max`, inclusive. */
export function wholeNumber({ description, min, max }: NumberField): z.ZodInt {
  return z.int().min(min).max(max).meta({ description, format: 'int64' });
}

/** From 0.0001 to 1 with at most four decimals. */
const RATE = /^(1(\.0{1,4})?|0\.([1-9][0-9]{0,3}|0[1-9][0-9]{0,2}|00[1-9][0-9]?|000[1-9]))$/;

/** A fraction as text, such as "0.05": two programs may round a number differently. */
export function rate(description: string): z.ZodString {
  return text({ description, max: 6, pattern: RATE });
}

/** The generation of an object. */
export function generation(description: string): z.ZodInt {
  return wholeNumber({ description, min: 0, max: Number.MAX_SAFE_INTEGER });
}

/** A point in time in RFC 3339. */
export function timestamp(description: string): z.ZodString {
  return z
    .string()
    .max(40)
    .refine((value) => !Number.isNaN(Date.parse(value)), 'Must be a time in RFC 3339')
    .meta({ description, format: 'date-time' });
}
