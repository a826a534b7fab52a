import { expect, test } from 'vitest';
import { cumulativeShares, indexAt, jainIndex, zipfWeights } from './shares.ts';

test('an index is drawn in proportion to its weight', () => {
  const shares = cumulativeShares([1, 0, 3]);
  expect([0, 0.249, 0.25, 0.999].map((at) => indexAt(shares, at))).toEqual([0, 0, 2, 2]);
});

test('with Zipf weights the busiest of ten has a third to a half of the load', () => {
  const [busiest = 0] = cumulativeShares(zipfWeights(10));
  expect(busiest).toBeGreaterThan(1 / 3);
  expect(busiest).toBeLessThan(1 / 2);
});

test('the Jain index is 1 for equal service and 1/n for one-sided service', () => {
  expect(jainIndex([2, 2, 2, 2])).toBe(1);
  expect(jainIndex([4, 0, 0, 0])).toBe(0.25);
});
