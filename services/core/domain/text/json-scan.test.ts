import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createJsonScan } from './json-scan.ts';

function marksOf(text: string, pieceBytes: number): number {
  const scan = createJsonScan();
  const bytes = Buffer.from(text);
  for (let i = 0; i < bytes.length; i += pieceBytes) scan.push(bytes.subarray(i, i + pieceBytes));
  return scan.marks();
}

test.each([
  ['1', 1],
  ['[]', 2],
  ['[1,2,3]', 4],
  ['{"a":[{},{}]}', 6],
  ['{"a,[{":"b,[{"}', 2],
  [String.raw`["\",[{","\\",[]]`, 5],
  [String.raw`["\\\",[",1]`, 3],
])('%s has %i marks, regardless of how it is split into chunks', (text, marks) => {
  for (const pieceBytes of [1, 2, 3, 5, 100]) expect(marksOf(text, pieceBytes)).toBe(marks);
});

test('a long string with many escapes is searched in a time that grows with its length', () => {
  const line = String.raw`${'a'.repeat(70)}\n`;
  const timeOf = (lines: number): number => {
    const bytes = Buffer.from(`"${line.repeat(lines)}"`);
    const begun = performance.now();
    createJsonScan().push(bytes);
    return performance.now() - begun;
  };
  timeOf(4_000);
  // Sixteen times as long: 256 times the work if each search goes to the end.
  expect(timeOf(64_000)).toBeLessThan(100 * Math.max(1, timeOf(4_000)));
});

test('brackets and commas within strings are not counted, regardless of length and escapes', () => {
  const word = fc.constantFrom('a'.repeat(50), 'b', '"', '\\', ',', '[', '{', 'ü');
  const values = fc.array(
    fc
      .tuple(fc.array(word, { maxLength: 40 }), fc.constantFrom(1, 1, 1, 200))
      .map(([words, times]) => words.join('').repeat(times)),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(values, fc.constantFrom(1, 7, 300, 100_000), (texts, pieceBytes) => {
      expect(marksOf(JSON.stringify(texts), pieceBytes)).toBe(1 + Math.max(1, texts.length));
    }),
  );
});
