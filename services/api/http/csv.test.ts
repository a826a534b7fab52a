import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { toCsv } from './csv.ts';

/** The least that reads RFC 4180. */
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

test('whatever is written is read again, in its cell', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'ä', '"', ',', '\n', '\r', ' ', '=', ';') });
  fc.assert(
    fc.property(fc.array(fc.array(text, { minLength: 1, maxLength: 4 }), { maxLength: 5 }), (rows) => {
      const read = parse(toCsv(rows)).map((row) =>
        row.map((value) => value.replace(/^'(?=[=+\-@\t\r])/, '')),
      );
      expect(read).toEqual(rows);
    }),
  );
});

test.each(['=1+1', '+1', '-1', '@a', '\tx', '\rx'])('%j is not run by a spreadsheet', (value) => {
  expect(parse(toCsv([[value]]))).toEqual([[`'${value}`]]);
});

test('numbers stay numbers, and nothing is an empty cell', () => {
  expect(toCsv([[-1, 0.5, null, undefined, true]])).toBe('-1,0.5,,,true\r\n');
});
