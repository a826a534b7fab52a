import { expect, test } from 'vitest';
import { median, percentile, spreadOf } from './percentile.ts';

test.each([
  [[3, 1, 2], 2],
  [[4, 1, 3, 2], 2.5],
  [[7], 7],
])('the median of %j is %d', (values, expected) => {
  expect(median(values)).toBe(expected);
});

test('a percentile is one of the values, at most the last, and NaN without values', () => {
  const sorted = Array.from({ length: 100 }, (_, i) => i + 1);
  expect([0, 0.5, 0.99, 1].map((at) => percentile(sorted, at))).toEqual([1, 51, 100, 100]);
  expect(percentile([], 0.5)).toBeNaN();
  expect(median([])).toBeNaN();
});

test('the spread contains the middle half of the values', () => {
  expect(spreadOf([1, 2, 3, 4, 5])).toEqual({ median: 3, low: 2, high: 4 });
  expect(spreadOf([2, 1])).toEqual({ median: 1.5, low: 1.25, high: 1.75 });
  expect(spreadOf([]).low).toBeNaN();
});
