import { z } from 'zod';
import { normalAddress } from '#core/domain/recipient/mailbox.ts';

/** Aliases of fields, read by `case-aliases.ts`. */
export const ALIASES = z.registry<{ readonly alias: string }>();

/** Accepts the field under an alias too; both with different values are a 400, like two spellings. */
export function withAlias<T extends z.ZodType>(alias: string, schema: T): T {
  ALIASES.add(schema, { alias });
  return schema;
}

/** How many seconds a replaced value stays valid: at most a week. */
export function graceSecondsField(description: string, byDefault = 86_400) {
  return z.int().min(0).max(604_800).default(byDefault).describe(description);
}

/** A map of at most `most` pairs. `countFaults` reads the bound, so that it is checked before the pairs. */
export function atMostPairs<K extends z.core.$ZodRecordKey, V extends z.ZodType>(
  most: number,
  schema: z.ZodRecord<K, V>,
): z.ZodRecord<K, V> {
  return schema
    .refine((map) => Object.keys(map).length <= most, {
      error: `Must have at most ${most} pairs`,
      params: { rule: 'max' },
    })
    .meta({ maxProperties: most });
}

/** A UUID in any case, as the database writes it. */
export const uuidField = () => z.uuid().transform((id) => id.toLowerCase());

/** Text of `min` to `max` Unicode code points. */
export function text(min: number, max: number): z.ZodString {
  return z
    .string()
    .check((context) => {
      const length = codePoints(context.value, min, max);
      if (length >= min && length <= max) return;
      context.issues.push({
        code: 'custom',
        input: context.value,
        params: { rule: length < min ? 'min' : 'max' },
        message: `Must have ${min} to ${max} characters`,
      });
    })
    .meta({ minLength: min, maxLength: max });
}

/**
 * A recipient in a query. A number or an address may come with the `+` as it is: a query is read like a form, where that is a
 * space. Otherwise nothing would be found, which looks as if nothing were there.
 */
export function recipientFilter(max: number): z.ZodString {
  return text(1, max).overwrite((value) => {
    if (/^ \d+$/.test(value)) return value.replace(' ', '+');
    // Only a quoted part of an address contains a space.
    const address = value.includes('"') ? value : value.replaceAll(' ', '+');
    return normalAddress(address) === undefined ? value : address;
  });
}

/** Single-line text that becomes part of a header. */
export function lineText(min: number, max: number): z.ZodString {
  return text(min, max).check((context) => {
    if (!isLine(context.value)) context.issues.push(lineIssue(context.value));
  });
}

export function isLine(value: string): boolean {
  return !/[\r\n\0]/.test(value);
}

export function lineIssue(input: unknown) {
  return {
    code: 'custom' as const,
    input,
    params: { rule: 'line' },
    message: 'Must not contain line breaks or NUL',
  };
}

/** Counts code points only when necessary: there are never more than code units, and never fewer than half as many. */
function codePoints(value: string, min: number, max: number): number {
  if (value.length <= max && value.length >= 2 * min) return value.length;
  let count = 0;
  for (const _ of value) count += 1;
  return count;
}
