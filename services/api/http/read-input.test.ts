import { expect, test } from 'vitest';
import { z } from 'zod';
import type { AppError } from '#core/domain/app-error.ts';
import { inputCompiler, readJson } from './read-input.ts';

const read = (text: string) => readJson(Buffer.from(text));

test('what copying would lose is refused, not dropped', () => {
  expect(() => read('{"metadata":{"__proto__":"a"}}')).toThrow(
    expect.objectContaining({
      code: 'validation_failed',
      details: [{ field: 'metadata', rule: 'name', message: 'Must not have a field named __proto__' }],
    }),
  );
});

test.each(['{"a":1}x', '{"a":', '\u00ff', '{"a":1,}'])('what is no JSON is refused: %s', (text) => {
  expect(() => read(text)).toThrow(expect.objectContaining({ code: 'malformed_json' }));
});

test('thirty-two levels pass and thirty-three do not', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  expect(read(nested(32))).toBeInstanceOf(Array);
  expect(() => read(nested(33))).toThrow(expect.objectContaining({ code: 'validation_failed' }));
});

test('thirty thousand values pass and one more does not, wherever they are', () => {
  const array = (count: number) => `[${Array.from({ length: count }, () => '0').join()}]`;
  const object = (count: number) => `{${Array.from({ length: count }, (_, i) => `"a${i}":"b"`).join()}}`;
  for (const make of [array, object, (count: number) => `{"a":[${array(count - 2)}]}`]) {
    expect(read(make(29_999))).toBeTypeOf('object');
    expect(() => read(make(30_000))).toThrow(
      expect.objectContaining({
        details: [{ field: 'body', rule: 'size', message: 'Must have at most 30000 values' }],
      }),
    );
  }
});

test('what is at fault is named by its place', () => {
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

test('a body with countless faults is answered with the first hundred', () => {
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

test('a change that clears what cannot be cleared is told so', () => {
  const validate = inputCompiler({
    schema: z.object({ plan: z.string().optional() }),
    method: 'PATCH',
    url: '/',
    httpPart: 'body',
  });
  const { error } = validate({ plan: null }) as { error: AppError };
  expect(error).toMatchObject({ code: 'missing_field', message: "Field 'plan' cannot be null" });
});
