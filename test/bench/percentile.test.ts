import { expect, test } from 'vitest';
import { median, percentile } from './percentile.ts';

test.each([
  [[3, 1, 2], 2],
  [[4, 1, 3, 2], 2.5],
  [[7], 7],
])('the median of %j is %d', (values, expected) => {
  expect(median(values)).toBe(expected);
});

test('a percentile is a value that was measured, the last one at most', () => {
  const sorted = Array.from({ length: 100 }, (_, i) => i + 1);
  expect([0, 0.5, 0.99, 1].map((at) => percentile(sorted, at))).toEqual([1, 51, 100, 100]);
  expect(percentile([], 0.5)).toBeNaN();
  expect(median([])).toBeNaN();
});
