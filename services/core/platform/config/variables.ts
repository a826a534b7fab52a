import { z } from 'zod';
import { Secret } from '#core/domain/storage/secret.ts';
import type { Notes } from './describe-variable.ts';

export type TextOptions = {
  readonly pattern?: RegExp;
  readonly rule?: string;
  readonly lengthMax?: number;
  readonly default?: string;
  readonly type?: string;
};

/** Returns a variable for text, optionally with a pattern; `rule` describes the pattern in words. */
export function text(description: string, options: TextOptions = {}): z.ZodType<string> {
  const { pattern = /^[^\r\n\0]+$/, rule = 'must be one line of text', lengthMax = 4096 } = options;
  const schema = z.string().max(lengthMax, `must have at most ${lengthMax} characters`).regex(pattern, rule);
  const notes: Notes = {
    description,
    type: options.type ?? 'text',
  };
  return withDefault(schema, notes, options.default);
}

/**
 * Returns a variable for a secret, given directly or by the file that `<NAME>_FILE` names (surrounding white space is removed).
 */
export function secretText(
  description: string,
  options: { readonly lengthMin?: number } = {},
): z.ZodType<Secret> {
  const { lengthMin = 1 } = options;
  return z
    .string()
    .min(lengthMin, `must have at least ${lengthMin} characters`)
    .transform((value) => new Secret(value))
    .meta({ description, type: 'secret', secret: true } satisfies Notes);
}

/** Returns a variable for words separated by commas; white space around them is dropped. Absent: an empty list. */
export function list(
  description: string,
  options: { readonly item?: (value: string) => boolean; readonly rule?: string } = {},
): z.ZodType<readonly string[]> {
  const { item = () => true, rule = 'has an item of the wrong form' } = options;
  const schema = z
    .string()
    .transform(splitList)
    .refine((values) => values.every(item), rule);
  return withDefault(schema, { description, type: 'list, separated by commas' }, '');
}

/** Returns a variable for an integer within bounds. Put the unit into the variable's name. */
export function whole(
  description: string,
  bounds: { readonly min: number; readonly max: number; readonly default?: number },
): z.ZodType<number> {
  const rule = `must be a whole number from ${bounds.min} to ${bounds.max}`;
  const schema = z
    .string()
    .refine(
      (value) => /^-?\d{1,15}$/.test(value) && Number(value) >= bounds.min && Number(value) <= bounds.max,
      rule,
    )
    .transform(Number);
  const type = `whole number, ${bounds.min} to ${bounds.max}`;
  return withDefault(schema, { description, type }, bounds.default?.toString());
}

/** Returns a variable for a number from 0 to 1. */
export function ratio(description: string, fallback: number): z.ZodType<number> {
  const schema = z
    .string()
    .refine((value) => /^(?:0|1|0?\.\d+|1\.0+)$/.test(value), 'must be a number from 0 to 1')
    .transform(Number);
  return withDefault(schema, { description, type: 'number, 0 to 1' }, String(fallback));
}

/** Returns a variable for `true` or `false`. */
export function flag(description: string, fallback: boolean): z.ZodType<boolean> {
  const schema = z.enum(['true', 'false'], 'must be true or false').transform((value) => value === 'true');
  return withDefault(schema, { description, type: '`true` or `false`' }, String(fallback));
}

/** Returns a variable for one of several words. */
export function oneOf<const Words extends readonly [string, ...string[]]>(
  description: string,
  words: Words,
  fallback?: Words[number],
): z.ZodType<Words[number]> {
  const schema = z.enum(words, `must be one of ${words.join(', ')}`);
  return withDefault<Words[number]>(
    schema,
    { description, type: words.map((word) => `\`${word}\``).join(', ') },
    fallback,
  );
}

/** Returns the same variable, allowed to be absent. */
export function optional<T>(variable: z.ZodType<T>): z.ZodType<T | undefined> {
  return variable.optional().meta(variable.meta() ?? {});
}

/** Returns the variable with a value for where it is absent. */
export function withDefault<T>(
  schema: z.ZodType<T, string>,
  notes: Notes,
  fallback: string | undefined,
): z.ZodType<T> {
  if (fallback === undefined) return schema.meta(notes);
  return schema.prefault(fallback).meta({ ...notes, default: fallback });
}

export function splitList(value: string): string[] {
  return value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}
