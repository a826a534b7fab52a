import { expect, test } from 'vitest';
import { shuffled } from './shuffle.ts';

test('a seed gives the same order of all values each time, and another seed another order', () => {
  const values = Array.from({ length: 20 }, (_, i) => i);
  expect(shuffled(values, 1)).toEqual(shuffled(values, 1));
  expect(shuffled(values, 1)).not.toEqual(shuffled(values, 2));
  expect(shuffled(values, 1).toSorted((a, b) => a - b)).toEqual(values);
});
