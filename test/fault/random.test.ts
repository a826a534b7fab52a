import { expect, test } from 'vitest';
import { seededRandom } from './random.ts';

const draw = (seed: number): number[] => {
  const random = seededRandom(seed);
  return Array.from({ length: 1_000 }, () => random.whole(1, 6));
};

test('a seed draws the same numbers each time, and another seed draws others', () => {
  expect(draw(7)).toEqual(draw(7));
  expect(draw(7)).not.toEqual(draw(8));
});

test('draws every number of the range and none outside it', () => {
  expect(new Set(draw(1))).toEqual(new Set([1, 2, 3, 4, 5, 6]));
});
