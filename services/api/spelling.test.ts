import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { AppError } from '#core/domain/app-error.ts';
import { respell, spellingOf } from './spelling.ts';

const schema = z.object({
  bodyHtml: z.string().optional(),
  attachments: z.array(z.object({ contentType: z.string() })).default([]),
  template: z.object({ variables: z.record(z.string(), z.string()), someName: z.string() }).nullable(),
  metadata: z.record(z.string(), z.unknown()).optional(),
});
const spelling = spellingOf(schema);

function detailsOf(work: () => unknown): AppError['details'] {
  try {
    work();
  } catch (error) {
    return (error as AppError).details;
  }
  return undefined;
}

describe('spelling', () => {
  test('known fields get their camelCase name at every depth, unknown ones are dropped', () => {
    const sent = {
      body_html: 'a',
      attachments: [{ content_type: 'b', junk: 1 }],
      template: { some_name: 'c' },
      junk: 1,
    };
    expect(respell(spelling, sent)).toEqual({
      bodyHtml: 'a',
      attachments: [{ contentType: 'b' }],
      template: { someName: 'c' },
    });
  });

  test('maps of free keys stay as sent', () => {
    const sent = { template: { variables: { some_key: '1', someKey: '2' } }, metadata: { a_b: { c_d: 1 } } };
    expect(respell(spelling, sent)).toEqual(sent);
  });

  test('equal values in both spellings are one, whatever the order of their names', () => {
    const sent = { someMap: { a: 1, b: 2 }, some_map: { b: 2, a: 1 } };
    const free = spellingOf(z.object({ someMap: z.record(z.string(), z.number()) }));
    expect(respell(free, sent)).toEqual({ someMap: { a: 1, b: 2 } });
  });

  test('different values in both spellings are refused with the path of the field', () => {
    const sent = { attachments: [{ contentType: 'a', content_type: 'b' }] };
    expect(detailsOf(() => respell(spelling, sent))).toMatchObject([
      { field: 'attachments.0.contentType', rule: 'conflict' },
    ]);
    expect(detailsOf(() => respell(spelling, { bodyHtml: null, body_html: 'a' }))).toMatchObject([
      { field: 'bodyHtml' },
    ]);
  });

  test('a union knows the fields of all its members', () => {
    const union = spellingOf(
      z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('a'), someField: z.string() }),
        z.object({ kind: z.literal('b'), otherField: z.object({ deepField: z.string() }) }),
      ]),
    );
    expect(respell(union, { kind: 'b', some_field: 1, other_field: { deep_field: 2 } })).toEqual({
      kind: 'b',
      someField: 1,
      otherField: { deepField: 2 },
    });
  });

  test('a name that is a property of every object is no field', () => {
    const sent = JSON.parse('{"__proto__": {"bodyHtml": "x"}, "constructor": 1}') as object;
    const respelled = respell(spelling, sent) as object;
    expect(respelled).toEqual({});
    expect(Object.getPrototypeOf(respelled)).toBe(Object.prototype);
  });

  test('what is no object is left for the rules to refuse', () => {
    for (const value of [null, 5, 'x', [1]]) expect(respell(spelling, value)).toEqual(value);
  });
});
