import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createLineRanges, lineRangesText } from './line-ranges.ts';

test('added lines are merged into as few ranges as possible', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 1, max: 40 })), (given) => {
      const lines = given.toSorted((a, b) => a - b);
      const ranges = createLineRanges();
      for (const line of lines) ranges.add(line);
      const held = ranges
        .list()
        .flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, i) => from + i));
      expect(held).toEqual(lines);
      const gaps = lines.filter((line, i) => line !== (lines[i - 1] ?? Number.NaN) + 1);
      expect(ranges.list()).toHaveLength(gaps.length);
    }),
  );
});

test('ranges are formatted as text', () => {
  const ranges = createLineRanges();
  for (const line of [2, 3, 4, 9]) ranges.add(line);
  expect(lineRangesText(ranges.list())).toBe('2-4, 9');
});
