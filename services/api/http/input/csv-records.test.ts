import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toCsv, unguarded } from '../lists/csv.ts';
import { csvRecords, type CsvRecord } from './csv-records.ts';
import { BLANK_LINES_MAX } from './text-lines.ts';

const read = (text: string | Buffer, max = 1_000): CsvRecord[] => [...csvRecords(Buffer.from(text), max)];
const cells = (text: string): (readonly string[])[] => read(text).map((record) => record.cells);

test('any rows written by toCsv are read back with their cells and line numbers', () => {
  const unit = fc.constantFrom('a', 'ä', '💥', '"', ',', '\n', '\r', ' ', '=', '+', "'", ';', '1');
  // At least two cells: a row with one empty cell would be an empty line.
  const row = fc.array(fc.string({ unit }), { minLength: 2, maxLength: 4 });
  fc.assert(
    fc.property(fc.array(row, { maxLength: 5 }), fc.constantFrom('', '\u{feff}'), (rows, bom) => {
      const records = read(bom + toCsv(rows));
      expect(records.map((record) => record.cells.map(unguarded))).toEqual(rows);
      const breaks = rows.map((one) => one.join('').split('\n').length);
      expect(records.map(({ line }) => line)).toEqual(
        rows.map((_, i) => 1 + breaks.slice(0, i).reduce((sum, n) => sum + n, 0)),
      );
    }),
  );
});

test('arbitrary bytes yield records with ascending line numbers and bounded cells', () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 5 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom('"', ',', '\r', '\n', 'a').map((text) => Buffer.from(text)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), fc.integer({ min: 1, max: 20 }), (pieces, max) => {
      const bytes = Buffer.concat(pieces);
      const records = [...csvRecords(bytes, max)];
      const lines = records.map(({ line }) => line);
      expect(lines).toEqual([...new Set(lines)].toSorted((a, b) => a - b));
      expect(lines.at(-1) ?? 1).toBeLessThanOrEqual(bytes.toString('latin1').split('\n').length);
      for (const record of records) expect(record.cells.join('').length).toBeLessThanOrEqual(max);
    }),
  );
});

describe('a CSV of another program', () => {
  test.each([
    [
      'a,b\nc,d',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    [
      'a,b\r\n\r\nc,d\r\n\n',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    ['\u{feff}a,b', [['a', 'b']]],
    [
      'a,\r\n,b',
      [
        ['a', ''],
        ['', 'b'],
      ],
    ],
    ['"a","b\nc"\r\n', [['a', 'b\nc']]],
    ['"a""b"', [['a"b']]],
    ['""\n', [['']]],
    ['', []],
    ['\n\n', []],
  ])('%j is split into its cells', (text, expected) => {
    expect(cells(text)).toEqual(expected);
  });

  test.each([
    ['a"b,c\nd,e', 'A quote stands within a cell'],
    ['"a"b,c\nd,e', 'A quoted cell goes on'],
    ['a\rb,c\nd,e', 'A carriage return'],
    [`${'x'.repeat(2_000)}\nd,e`, 'Is longer than 1000 bytes'],
    [`${'x,'.repeat(2_000)}\nd,e`, 'Is longer than 1000 bytes'],
  ])('%j is a fault of one record only', (text, fault) => {
    expect(read(text)).toEqual([
      { line: 1, cells: [], fault: expect.stringContaining(fault) },
      { line: 2, cells: ['d', 'e'] },
    ]);
  });

  test('with invalid UTF-8 has a fault in that record only', () => {
    const bytes = Buffer.concat([Buffer.from('a,'), Buffer.from([0xc3, 0x28]), Buffer.from('\nd,e')]);
    expect(read(bytes)).toEqual([
      { line: 1, cells: [], fault: 'Is not valid UTF-8' },
      { line: 2, cells: ['d', 'e'] },
    ]);
  });

  test('with an unclosed quote ends at that record', () => {
    expect(read(`a,b\nc,"d\n${'e,f\n'.repeat(1_000)}`)).toEqual([
      { line: 1, cells: ['a', 'b'] },
      { line: 2, cells: [], fault: 'A quote is not closed', isEnd: true },
    ]);
  });
});

test('blank lines are skipped up to a maximum, and each further one is a fault', () => {
  const records = [...csvRecords(Buffer.from('\n'.repeat(BLANK_LINES_MAX + 3)), 10)];
  expect(records).toHaveLength(3);
  for (const { fault } of records) expect(fault).toMatch(/^Is blank/);
});
