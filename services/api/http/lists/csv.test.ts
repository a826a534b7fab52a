import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { toCsv, unguarded } from './csv.ts';

/** A minimal RFC 4180 parser. */
function parse(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const cells = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/gy;
  for (let match = cells.exec(text); match !== null; match = cells.exec(text)) {
    row.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '');
    if (match[3] === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

test('any rows written are parsed back into the same cells', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'ä', '"', ',', '\n', '\r', ' ', '=', ';', '+', "'", '1'),
  });
  fc.assert(
    fc.property(fc.array(fc.array(text, { minLength: 1, maxLength: 4 }), { maxLength: 5 }), (rows) => {
      expect(parse(toCsv(rows)).map((row) => row.map(unguarded))).toEqual(rows);
    }),
  );
});

test.each([
  '=1+1',
  '+1+1',
  '+a',
  '-1',
  '@a',
  '\tx',
  '\rx',
  '\n=1',
  '＝1',
  '＋1',
  '－1',
  '＠a',
  "'=1",
  '+1234567890123456',
])('%j is prefixed with an apostrophe, so that a spreadsheet does not run it', (value) => {
  expect(parse(toCsv([[value]]))).toEqual([[`'${value}`]]);
});

test('numbers and booleans are written unquoted, and null and undefined as empty cells', () => {
  expect(toCsv([[-1, 0.5, null, undefined, true]])).toBe('-1,0.5,,,true\r\n');
});

test('a phone number in E.164 is not prefixed', () => {
  expect(toCsv([['+15550000001']])).toBe('+15550000001\r\n');
});

test.each(['+15551230001', '=1+1', "'tis"])(
  'a cell that no apostrophe guards is read unchanged: %s',
  (text) => {
    expect(unguarded(text)).toBe(text);
  },
);
