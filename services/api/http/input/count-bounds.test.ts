import { expect, test } from 'vitest';
import { z } from 'zod';
import { countBoundsOf, countFaults } from './count-bounds.ts';

const map = z.record(z.string(), z.string()).meta({ maxProperties: 2 });
const Sms = z.object({ channel: z.literal('sms'), tags: z.array(z.string()).max(3).optional() });
const Mail = z.object({
  channel: z.literal('email'),
  tags: z.array(z.string()).max(3).optional(),
  headers: map.describe('Own headers.').optional(),
  files: z
    .array(z.object({ names: z.array(z.string()).max(1).default([]) }))
    .max(4)
    .refine((files) => files.length !== 3)
    .optional(),
  variables: z.union([z.array(z.string()).max(2), map]).default([]),
  free: z.record(z.string(), z.unknown()).optional(),
});
const Message = z.discriminatedUnion('channel', [Sms, Mail]).superRefine(() => {});

const faultsOf = (value: unknown) =>
  countFaults(countBoundsOf(Message), value).map(
    ({ field, rule, message }) => `${field} ${rule}: ${message}`,
  );
const many = (n: number) => Array.from({ length: n }, (_, i) => String(i));
const pairs = (n: number) => Object.fromEntries(many(n).map((name) => [name, name]));

test('a value within its bounds or of another type has no fault', () => {
  const files = [{ names: ['a'] }, {}, {}, 7];
  const full = { tags: many(3), headers: pairs(2), files, variables: pairs(2), free: pairs(99) };
  expect(faultsOf(full)).toEqual([]);
  for (const other of [undefined, null, 7, 'text', [], { tags: 'many' }, { variables: null }])
    expect(faultsOf(other)).toEqual([]);
});

test.each<[field: string, value: object, fault: string]>([
  ['a list', { tags: many(4) }, 'tags max: Must have at most 3 items'],
  ['a map', { headers: pairs(3) }, 'headers max: Must have at most 2 pairs'],
  ['a list of objects', { files: many(5) }, 'files max: Must have at most 4 items'],
  [
    'a list inside of a list',
    { files: [{}, { names: many(2) }] },
    'files.1.names max: Must have at most 1 items',
  ],
  ['a union, as a list', { variables: many(3) }, 'variables max: Must have at most 2 items'],
  ['a union, as a map', { variables: pairs(3) }, 'variables max: Must have at most 2 pairs'],
])('too many elements are reported with the path and the bound: %s', (_, value, fault) => {
  expect(faultsOf(value)).toEqual([fault]);
});

test('a schema without bounds yields undefined', () => {
  expect(countBoundsOf(z.object({ a: z.string(), b: z.array(z.unknown()) }))).toBeUndefined();
});
