import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { AppError } from '#core/domain/fault/app-error.ts';
import { resolveAliases as resolveAll, caseAliasesOf } from './case-aliases.ts';

const resolveAliases: (...args: Parameters<typeof resolveAll>) => unknown = (...args) =>
  resolveAll(...args).value;

const schema = z.object({
  bodyHtml: z.string().optional(),
  attachments: z.array(z.object({ contentType: z.string() })).default([]),
  template: z.object({ variables: z.record(z.string(), z.string()), someName: z.string() }).nullable(),
  metadata: z.record(z.string(), z.unknown()).optional(),
});
const aliases = caseAliasesOf(schema);

function detailsOf(work: () => unknown): AppError['details'] {
  try {
    work();
  } catch (error) {
    return (error as AppError).details;
  }
  return undefined;
}

describe('aliases', () => {
  test('known fields get their camelCase name at every depth, unknown ones are dropped', () => {
    const sent = {
      body_html: 'a',
      attachments: [{ content_type: 'b', junk: 1 }],
      template: { some_name: 'c' },
      junk: 1,
    };
    expect(resolveAliases(aliases, sent)).toEqual({
      bodyHtml: 'a',
      attachments: [{ contentType: 'b' }],
      template: { someName: 'c' },
    });
  });

  test('keys of free-form maps are not renamed', () => {
    const sent = { template: { variables: { some_key: '1', someKey: '2' } }, metadata: { a_b: { c_d: 1 } } };
    expect(resolveAliases(aliases, sent)).toEqual(sent);
  });

  test('equal values in both spellings are merged, regardless of key order', () => {
    const sent = { someMap: { a: 1, b: 2 }, some_map: { b: 2, a: 1 } };
    const free = caseAliasesOf(z.object({ someMap: z.record(z.string(), z.number()) }));
    expect(resolveAliases(free, sent)).toEqual({ someMap: { a: 1, b: 2 } });
  });

  test('different values in both spellings are refused with the path of the field', () => {
    const sent = { attachments: [{ contentType: 'a', content_type: 'b' }] };
    expect(detailsOf(() => resolveAliases(aliases, sent))).toMatchObject([
      { field: 'attachments.0.contentType', rule: 'conflict' },
    ]);
    const withNull = { bodyHtml: null, body_html: 'a' };
    expect(detailsOf(() => resolveAliases(aliases, withNull, { nulls: 'kept' }))).toMatchObject([
      { field: 'bodyHtml' },
    ]);
    expect(resolveAliases(aliases, withNull)).toEqual({ bodyHtml: 'a' });
  });

  test('a union resolves the fields of all its members', () => {
    const union = caseAliasesOf(
      z.union([
        z.object({ kind: z.literal('a'), someField: z.string() }),
        z.object({ kind: z.literal('b'), otherField: z.object({ deepField: z.string() }) }),
      ]),
    );
    expect(resolveAliases(union, { kind: 'b', some_field: 1, other_field: { deep_field: 2 } })).toEqual({
      kind: 'b',
      someField: 1,
      otherField: { deepField: 2 },
    });
  });

  test('__proto__ and constructor are dropped as unknown fields', () => {
    const sent = JSON.parse('{"__proto__": {"bodyHtml": "x"}, "constructor": 1}') as object;
    const resolved = resolveAliases(aliases, sent) as object;
    expect(resolved).toEqual({});
    expect(Object.getPrototypeOf(resolved)).toBe(Object.prototype);
  });

  test('a value that is not an object is returned unchanged', () => {
    for (const value of [null, 5, 'x', [1]]) expect(resolveAliases(aliases, value)).toEqual(value);
  });
});

describe('null', () => {
  const sent = {
    bodyHtml: null,
    template: { variables: { a: null }, some_name: null },
    attachments: [{ content_type: null }, null],
    metadata: { a: null },
    junk: null,
  };

  test('counts as absent in a known field, and is kept in free-form maps', () => {
    expect(resolveAll(aliases, sent)).toEqual({
      value: { template: { variables: { a: null } }, attachments: [{}, null], metadata: { a: null } },
      warnings: [],
    });
  });

  test('is kept in a known field if null clears the field', () => {
    expect(resolveAliases(aliases, sent, { nulls: 'kept' })).toEqual({
      bodyHtml: null,
      template: { variables: { a: null }, someName: null },
      attachments: [{ contentType: null }, null],
      metadata: { a: null },
    });
  });
});

describe('dropped fields', () => {
  const warningsOf = (...args: Parameters<typeof resolveAll>) => resolveAll(...args).warnings;

  test('are reported with their paths, probable misspellings first', () => {
    const sent = {
      colour: 1,
      body_htm: 'x',
      attachments: [{ content_type: 'b' }, { contentTyp: 'b' }],
      template: { variables: { any: '1' } },
    };
    expect(warningsOf(aliases, sent)).toEqual([
      { field: 'body_htm', message: "Unknown field, ignored: did you mean 'bodyHtml'?" },
      { field: 'attachments.1.contentTyp', message: "Unknown field, ignored: did you mean 'contentType'?" },
      { field: 'colour', message: 'Unknown field, ignored' },
    ]);
    expect(warningsOf(aliases, { colour: 1 }, { kind: 'query parameter' })).toEqual([
      { field: 'colour', message: 'Unknown query parameter, ignored' },
    ]);
    expect(warningsOf(aliases, { body_html: 'x', metadata: { any: 1 } })).toEqual([]);
  });

  test('of another variant are reported once and are not suggested as corrections', () => {
    const union = caseAliasesOf(
      z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('a'), someField: z.string().optional() }),
        z.object({ kind: z.literal('b'), otherField: z.object({ deepField: z.string() }).optional() }),
      ]),
    );
    expect(resolveAll(union, { kind: 'a', other_field: { junk: 1 }, otherFiel: 1 })).toEqual({
      value: { kind: 'a' },
      warnings: [
        { field: 'otherField', message: "Ignored: does not belong to kind 'a'" },
        { field: 'otherFiel', message: 'Unknown field, ignored' },
      ],
    });
  });

  test('get at most 50 suggested corrections', () => {
    const sent = Object.fromEntries(Array.from({ length: 30_000 }, (_, i) => [`bodyHtm${i}`, 1]));
    expect(
      warningsOf(aliases, sent).filter(({ message }) => message.includes('did you mean')).length,
    ).toBeLessThan(51);
  });
});
