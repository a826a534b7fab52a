import { expect, test } from 'vitest';
import { gapsOf, withNumber, type NumberRanges } from './number-ranges.ts';

const of = (...numbers: number[]): NumberRanges => numbers.reduce<NumberRanges>(withNumber, []);

test.each([
  ['no numbers', [], [], []],
  ['numbers in order', [4, 5, 6], [[4, 6]], []],
  ['numbers in reverse order', [6, 5, 4], [[4, 6]], []],
  ['repeated numbers', [4, 4, 5, 4], [[4, 5]], []],
  [
    'numbers with gaps',
    [1, 9, 4, 5],
    [
      [1, 1],
      [4, 5],
      [9, 9],
    ],
    [
      [2, 3],
      [6, 8],
    ],
  ],
  ['a gap that is filled', [1, 3, 2], [[1, 3]], []],
  [
    'gaps that are filled from one side',
    [1, 5, 2, 4],
    [
      [1, 2],
      [4, 5],
    ],
    [[3, 3]],
  ],
])('ranges and gaps of %s', (_, numbers, ranges, gaps) => {
  expect(of(...numbers)).toEqual(ranges);
  expect(gapsOf(of(...numbers))).toEqual(gaps);
});
