import { expect, test } from 'vitest';
import { gapsOf, withNumber, type NumberRanges } from './number-ranges.ts';

const of = (...numbers: number[]): NumberRanges => numbers.reduce<NumberRanges>(withNumber, []);

test.each([
  ['nothing', [], [], []],
  ['what comes in order', [4, 5, 6], [[4, 6]], []],
  ['what comes backwards', [6, 5, 4], [[4, 6]], []],
  ['what comes twice', [4, 4, 5, 4], [[4, 5]], []],
  [
    'holes',
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
  ['a hole that is filled', [1, 3, 2], [[1, 3]], []],
  [
    'holes that are filled from one side',
    [1, 5, 2, 4],
    [
      [1, 2],
      [4, 5],
    ],
    [[3, 3]],
  ],
])('%s', (_, numbers, ranges, gaps) => {
  expect(of(...numbers)).toEqual(ranges);
  expect(gapsOf(of(...numbers))).toEqual(gaps);
});
