import { expect, test } from 'vitest';
import { z } from 'zod';
import { ruleText } from './rule-text.ts';

const textsOf = (schema: z.ZodType, value: unknown) =>
  schema.safeParse(value, { error: ruleText }).error?.issues.map(({ message }) => message);

test.each<[z.ZodType, unknown, string]>([
  [z.string(), 7, 'Must be a string'],
  [z.number(), '7', 'Must be a number'],
  [z.int(), 1.5, 'Must be a whole number'],
  [z.boolean(), 'yes', 'Must be true or false'],
  [z.array(z.string()), 'a', 'Must be a list'],
  [z.object({}), [], 'Must be an object'],
  [z.record(z.string(), z.string()), 'a', 'Must be an object'],
  [z.never(), 'a', 'Must be absent'],
  [z.date(), 'a', 'Must be a value of another type'],
  [z.int().min(1), 0, 'Must be at least 1'],
  [z.number().positive(), 0, 'Must be more than 0'],
  [z.int().max(200), 201, 'Must be at most 200'],
  [z.number().lt(3), 3, 'Must be less than 3'],
  [z.number().multipleOf(5), 3, 'Must be a multiple of 5'],
  [z.string().min(1), '', 'Must have at least 1 character'],
  [z.string().max(2), 'abc', 'Must have at most 2 characters'],
  [z.array(z.string()).max(1), ['a', 'b'], 'Must have at most 1 item'],
  [z.uuid(), 'a', 'Must be a UUID'],
  [z.string().regex(/^a$/), 'b', 'Must be in another format'],
  [z.enum(['a', 'b']), 'c', 'Must be one of a, b'],
  [z.literal('a'), 'c', 'Must be a'],
  [z.union([z.string(), z.number()]), true, 'Must be a value of another type'],
  [
    z.discriminatedUnion('type', [z.object({ type: z.literal('a') }), z.object({ type: z.literal('b') })]),
    { type: 'c' },
    'Must be one of a, b',
  ],
  [
    z.record(z.string().max(2), z.string()),
    { abc: 'd' },
    'Has a name that is not allowed: Must have at most 2 characters',
  ],
  [z.strictObject({}), { a: 1 }, 'Is not valid'],
  [z.string().refine(() => false), 'a', 'Is not valid'],
])('the rule %o for %j has a text for people', (schema, value, text) => {
  expect(textsOf(schema, value)).toEqual([text]);
});

test('a text of the schema itself is kept', () => {
  expect(textsOf(z.string('Must be a name'), 7)).toEqual(['Must be a name']);
});
