import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { BLANK_LINES_MAX, textLines } from './text-lines.ts';

test('every line that is not blank is read, with its number', () => {
  const line = fc.string({ unit: fc.constantFrom('a', 'ä', '{', '\r', ' ', '\0') });
  fc.assert(
    fc.property(fc.array(line), fc.constantFrom('', '\u{feff}'), (lines, bom) => {
      const expected = lines.flatMap((text, i) =>
        text.trim() === '' ? [] : [{ line: i + 1, text: text.trim() }],
      );
      expect([...textLines(Buffer.from(bom + lines.join('\n')), 1_000)]).toEqual(expected);
    }),
  );
});

test('a line that is too long or invalid UTF-8 is a fault of that line only', () => {
  const bytes = Buffer.concat([
    Buffer.from(`${'x'.repeat(11)}\n`),
    Buffer.from([0xff, 0x0a]),
    Buffer.from('ok'),
  ]);
  expect([...textLines(bytes, 10)]).toEqual([
    { line: 1, text: '', fault: 'Is longer than 10 bytes' },
    { line: 2, text: '', fault: 'Is not valid UTF-8' },
    { line: 3, text: 'ok' },
  ]);
});

test('blank lines are skipped up to a maximum, and each further one is a fault', () => {
  const lines = [...textLines(Buffer.from('\n'.repeat(BLANK_LINES_MAX + 3)), 10)];
  expect(lines.map(({ line }) => line)).toEqual([1, 2, 3].map((n) => BLANK_LINES_MAX + n));
  for (const { fault } of lines) expect(fault).toMatch(/^Is blank/);
});
