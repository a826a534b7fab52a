import { z } from 'zod';

/** Second names of fields, read by `case-aliases.ts`. */
export const ALIASES = z.registry<{ readonly alias: string }>();

/** Takes the field under another name too; both with different values is 400, as with two spellings. */
export function withAlias<T extends z.ZodType>(alias: string, schema: T): T {
  ALIASES.add(schema, { alias });
  return schema;
}

/** For how many seconds something that was replaced still holds: at most a week. */
export function graceSecondsField(description: string, byDefault = 86_400) {
  return z.int().min(0).max(604_800).default(byDefault).describe(description);
}

/** Text of `min` to `max` Unicode code points. */
export function text(min: number, max: number): z.ZodString {
  return z
    .string()
    .check((context) => {
      const length = codePoints(context.value, max);
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

/** Text that becomes part of a header: one line. */
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

/** Counts only where it can matter: code points are never more than code units. */
function codePoints(value: string, max: number): number {
  if (value.length <= max) return value.length;
  let count = 0;
  for (const _ of value) count += 1;
  return count;
}
