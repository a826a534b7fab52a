import type { z } from 'zod';

/**
 * Returns the text of a broken rule for which the schema has none of its own: it is for people who know the API, not the library.
 * It never repeats the value. Undefined for rules without a text.
 */
export const ruleText = (issue: z.core.$ZodRawIssue): string | undefined => {
  switch (issue.code) {
    case 'invalid_type':
      return TYPES[issue.expected] ?? 'Must be a value of another type';
    case 'too_small':
      return bound(issue.inclusive === false ? 'more than' : 'at least', issue.minimum, issue.origin);
    case 'too_big':
      return bound(issue.inclusive === false ? 'less than' : 'at most', issue.maximum, issue.origin);
    case 'not_multiple_of':
      return `Must be a multiple of ${issue.divisor}`;
    case 'invalid_format':
      return `Must be ${FORMATS[issue.format] ?? 'in another format'}`;
    case 'invalid_value':
      return oneOf(issue.values);
    case 'invalid_union':
      return Array.isArray(issue.options) ? oneOf(issue.options) : 'Must be a value of another type';
    case 'invalid_key':
      return `Has a name that is not allowed: ${issue.issues?.[0]?.message ?? 'Must be another one'}`;
    case 'custom':
    case 'invalid_element':
    case 'unrecognized_keys':
      return 'Is not valid';
    default:
      return undefined;
  }
};

const TYPES: Readonly<Record<string, string>> = {
  string: 'Must be a string',
  number: 'Must be a number',
  int: 'Must be a whole number',
  boolean: 'Must be true or false',
  array: 'Must be a list',
  object: 'Must be an object',
  record: 'Must be an object',
  never: 'Must be absent',
};

const FORMATS: Readonly<Record<string, string>> = {
  uuid: 'a UUID',
  url: 'a URL',
  email: 'an email address',
  datetime: 'an ISO 8601 time',
  date: 'a date, such as 2026-01-31',
};

const UNITS: Readonly<Record<string, string>> = { string: 'character', array: 'item', record: 'pair' };

function bound(relation: string, to: number | bigint, of: string): string {
  const unit = UNITS[of];
  return unit === undefined
    ? `Must be ${relation} ${to}`
    : `Must have ${relation} ${to} ${unit}${Number(to) === 1 ? '' : 's'}`;
}

function oneOf(values: readonly unknown[]): string {
  return values.length === 1 ? `Must be ${String(values[0])}` : `Must be one of ${values.join(', ')}`;
}
