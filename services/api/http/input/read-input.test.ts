import { expect, test } from 'vitest';
import { z } from 'zod';
import type { AppError } from '#core/domain/fault/app-error.ts';
import { exactNumbers } from './exact-numbers.ts';
import { inputCompiler, inputReader, readJson } from './read-input.ts';

const read = (text: string) => readJson(Buffer.from(text));

test('a field named __proto__ is refused, not dropped', () => {
  expect(() => read('{"metadata":{"__proto__":"a"}}')).toThrow(
    expect.objectContaining({
      code: 'validation_failed',
      details: [{ field: 'metadata', rule: 'name', message: 'Must not have a field named __proto__' }],
    }),
  );
});

test('a field that is given twice is refused, with its path', () => {
  for (const [text, field] of [
    ['{"to":"+15550000001","to":"+15550000002"}', 'to'],
    ['{"messages":[{"to":"a"},{"to":"b","to":"b"}]}', 'messages.1.to'],
  ] as const) {
    expect(() => read(text)).toThrow(
      expect.objectContaining({
        code: 'validation_failed',
        details: [{ field, rule: 'single', message: 'Must be given once' }],
      }),
    );
  }
  const once = '{"to":"a","data":{"to":"a"},"list":[{"to":":"},{"to":""}]}';
  expect(read(once)).toEqual(JSON.parse(once));
});

test.each(['{"a":1}x', '{"a":', '\u00ff', '{"a":1,}'])('invalid JSON is refused: %s', (text) => {
  expect(() => read(text)).toThrow(expect.objectContaining({ code: 'malformed_json' }));
});

test('32 levels of nesting are accepted and 33 are refused', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  expect(read(nested(32))).toBeInstanceOf(Array);
  expect(() => read(nested(33))).toThrow(expect.objectContaining({ code: 'validation_failed' }));
});

test('30,000 values are accepted and one more is refused, at any depth', () => {
  const array = (count: number) => `[${Array.from({ length: count }, () => '0').join()}]`;
  const object = (count: number) => `{${Array.from({ length: count }, (_, i) => `"a${i}":"b"`).join()}}`;
  for (const make of [array, object, (count: number) => `{"a":[${array(count - 2)}]}`]) {
    expect(read(make(29_999))).toBeTypeOf('object');
    expect(() => read(make(30_000))).toThrow(
      expect.objectContaining({
        details: [{ field: 'body', rule: 'size', message: 'Request body must have at most 30000 values' }],
      }),
    );
  }
});

test('NUL and lone surrogates are reported with the path of their field', () => {
  for (const [text, field] of [
    ['{"data":{"a":[1,{"b":"\\u0000"}]}}', 'data.a.1.b'],
    ['["\\ud800"]', '0'],
    ['"\\ud800"', 'body'],
    ['{"data":{"a\\u0000":1}}', 'data'],
  ] as const) {
    expect(() => read(text)).toThrow(
      expect.objectContaining({ details: [expect.objectContaining({ field, rule: 'characters' })] }),
    );
  }
});

test.each([
  ['{"__proto__":1}', 'name', 'Request body must not have a field named __proto__'],
  ['['.repeat(33) + ']'.repeat(33), 'depth', 'Request body must have at most 32 levels'],
  ['{"a\\u0000":1}', 'characters', 'Request body must have names of Unicode text without NUL'],
  ['{"body":"\\u0000"}', 'characters', 'Must be Unicode text without NUL'],
])('a fault of the whole body is told apart from one of a field named body: %s', (text, rule, message) => {
  expect(() => read(text)).toThrow(expect.objectContaining({ details: [{ field: 'body', rule, message }] }));
});

test('an error lists at most the first 100 faults of a body', () => {
  const validate = inputCompiler({
    schema: z.object({ map: z.record(z.string(), z.string()), name: z.string() }),
    method: 'POST',
    url: '/',
    httpPart: 'body',
  });
  const map = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`k${i}`, null]));
  const { error } = validate({ map }) as { error: AppError };
  expect(error).toMatchObject({ code: 'missing_field', message: "Field 'name' is required" });
  expect(error.details).toHaveLength(100);
});

test('a PATCH with null in a field that cannot be null is refused', () => {
  const validate = inputCompiler({
    schema: z.object({ plan: z.string().optional() }),
    method: 'PATCH',
    url: '/',
    httpPart: 'body',
  });
  const { error } = validate({ plan: null }) as { error: AppError };
  expect(error).toMatchObject({ code: 'missing_field', message: "Field 'plan' cannot be null" });
});

test('a whole number in a query that is too large to be exact is refused by its bound', () => {
  const read = inputReader(z.object({ afterSeq: z.int().min(0) }), 'querystring');
  expect(read({ afterSeq: '9007199254740991' })).toMatchObject({ value: { afterSeq: 9007199254740991 } });
  const message = 'Must be at most 9007199254740991';
  for (const afterSeq of ['9007199254740992', '9'.repeat(100)])
    expect(read({ afterSeq })).toMatchObject({
      error: { details: [{ field: 'afterSeq', rule: 'max', message }] },
    });
});

test.each([
  [{ limit: ['1', '2'] }, 'limit'],
  [{ status: ['sent', 'sent'] }, 'status'],
  [{ 'metadata.a': ['b', 'c'] }, 'metadata.a'],
])('a query parameter that is given twice is refused for that reason: %j', (sent, field) => {
  const schema = z.object({
    limit: z.int().optional(),
    status: z.enum(['sent']).optional(),
    metadata: z.record(z.string(), z.string()).optional(),
  });
  expect(inputReader(schema, 'querystring')(sent)).toMatchObject({
    error: { code: 'validation_failed', details: [{ field, rule: 'single', message: 'Must be given once' }] },
  });
});

test('a fraction in a query is refused like one in a body', () => {
  const schema = z.object({ limit: z.int().max(200) });
  const faults = (['querystring', 'body'] as const).map((part) =>
    inputReader(schema, part)({ limit: part === 'body' ? 1.5 : '1.5' }),
  );
  const details = [{ field: 'limit', rule: 'type', message: 'Must be a whole number' }];
  expect(faults).toMatchObject([{ error: { details } }, { error: { details } }]);
});

test.each([
  ['querystring', '9'.repeat(20), 'max', 'Must be at most 200'],
  ['body', 1e300, 'max', 'Must be at most 200'],
  ['body', -1e300, 'min', 'Must be at least 1'],
] as const)(
  'a number beyond two bounds of a field in the %s, %s, is told the closer one alone',
  (part, limit, rule, message) => {
    const read = inputReader(z.object({ limit: z.int().min(1).max(200), other: z.int() }), part);
    expect(read({ limit, other: limit })).toMatchObject({
      error: {
        details: [
          { field: 'limit', rule, message },
          { field: 'other', rule, message: expect.stringContaining('9007199254740991') },
        ],
      },
    });
  },
);

test('a long field name in a fault is shortened, and faults beyond the first 100 are left out', () => {
  const read = inputReader(z.object({ data: z.record(z.string(), z.unknown()).check(exactNumbers) }), 'body');
  const name = 'k'.repeat(100_000);
  const result = read({ data: { [name]: Array.from({ length: 10_000 }, () => 1e16) } });
  const { details = [] } = 'error' in result ? (result.error as AppError) : {};
  expect(details).toHaveLength(100);
  expect(details[1]).toMatchObject({ field: `data.${'k'.repeat(64)}….1`, rule: 'precision' });
});

test('a fault in a string is reported with a shortened path', () => {
  expect(() => read(`{"metadata":{"${'k'.repeat(100_000)}":"\\u0000"}}`)).toThrow(
    expect.objectContaining({ details: [expect.objectContaining({ field: `metadata.${'k'.repeat(64)}…` })] }),
  );
});

const readPairs = inputReader(z.object({ metadata: z.record(z.string(), z.string()) }), 'querystring');

test('the pairs of a map in a query string are read in linear time', () => {
  const query = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`metadata.k${i}`, 'v']));
  const milliseconds = (count: number) => {
    const sent = query(count);
    const from = process.cpuUsage().user;
    readPairs(sent);
    return (process.cpuUsage().user - from) / 1_000;
  };
  milliseconds(1_000);
  // Copying all pairs for each one takes several seconds.
  expect(milliseconds(20_000)).toBeLessThan(1_000);
});

test.each([
  ['metadata.__proto__', 'metadata'],
  ['metadata[__proto__]', 'metadata'],
  ['__proto__', 'query'],
])('the query parameter %s is refused, not dropped', (name, field) => {
  const sent = Object.fromEntries([
    ['metadata.b', 'c'],
    [name, 'a'],
  ] as const);
  const message = 'Must not have a parameter or key named __proto__';
  expect(readPairs(sent)).toMatchObject({ error: { details: [{ field, rule: 'name', message }] } });
});

test('a pair of a map sent in both spellings has the same value in both', () => {
  expect(readPairs({ 'metadata.a': 'b', 'metadata[a]': 'b' })).toMatchObject({
    value: { metadata: { a: 'b' } },
  });
  const message = 'Both spellings of the field are present with different values';
  expect(readPairs({ 'metadata.a': 'b', 'metadata[a]': 'c', 'metadata.d': 'e' })).toMatchObject({
    error: { code: 'validation_failed', details: [{ field: 'metadata.a', rule: 'conflict', message }] },
  });
});

test('a map that is also sent as a string is refused', () => {
  expect(readPairs({ metadata: 'x', 'metadata.a': 'b' })).toHaveProperty('error');
  expect(readPairs({ 'metadata.a': 'b', metadata: 'x' })).toHaveProperty('error');
});

/** Reads a query string's parameters by a schema. Returns the values, or the code and details of the error. */
function readQuery(sent: Readonly<Record<string, unknown>>) {
  const schema = z.strictObject({
    name: z.string().optional(),
    tags: z.array(z.string()).optional(),
    isTest: z.boolean().optional(),
  });
  const result = inputReader(schema, 'querystring')(sent);
  return 'error' in result ? (result.error as AppError) : result.value;
}

test.each<[what: string, sent: Readonly<Record<string, unknown>>, field: string]>([
  ['value', { name: 'a\0' }, 'name'],
  ['one of several values', { tags: ['a', '\ud800'] }, 'tags'],
  ['name', { 'na\0me': 'a' }, 'query'],
])('a %s in a query that is no text is refused', (_, sent, field) => {
  expect(readQuery(sent)).toMatchObject({
    code: 'validation_failed',
    details: [{ field, rule: 'characters', message: 'Must be Unicode text without NUL' }],
  });
});

test('true and false in a query are booleans where the schema says so, and no other text is', () => {
  expect(readQuery({ isTest: 'true', name: 'true' })).toEqual({ isTest: true, name: 'true' });
  expect(readQuery({ isTest: 'false' })).toEqual({ isTest: false });
  for (const isTest of ['1', 'TRUE', '']) {
    expect(readQuery({ isTest })).toMatchObject({ details: [{ field: 'isTest', rule: 'type' }] });
  }
});

test.each<[sent: unknown, what: string]>([
  [[], 'an array'],
  ['text', 'a string'],
  [0, 'a number'],
])('a body %j is refused, because it is %s and no object', (sent) => {
  const result = inputReader(z.strictObject({ name: z.string().optional() }), 'body')(sent);
  expect(result).toMatchObject({ error: { details: [{ field: 'body', rule: 'type' }] } });
});

test.each([undefined, null, {}])('a body %j has no fields', (sent) => {
  expect(inputReader(z.strictObject({ name: z.string().optional() }), 'body')(sent)).toMatchObject({
    value: {},
  });
});

test('only a call whose every fault is a blocked URL is answered with that code', () => {
  const blocked = z.string().refine(() => false, { params: { rule: 'url_blocked' } });
  const codeOf = (schema: z.ZodType, sent: object) => {
    const result = inputReader(schema, 'body')(sent);
    return 'error' in result ? (result.error as AppError).code : undefined;
  };
  expect(codeOf(z.object({ url: blocked }), { url: 'a' })).toBe('url_blocked');
  expect(codeOf(z.object({ url: blocked, n: z.number() }), { url: 'a', n: 'b' })).toBe('validation_failed');
  expect(codeOf(z.object({ url: blocked, n: z.number() }), { url: 'a' })).toBe('missing_field');
});
