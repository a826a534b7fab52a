import { expect, test } from 'vitest';
import { CONTESTANT_NAMES, isPaced } from '../contestants.ts';
import { roundOrder } from './round.ts';

const SEEDS = Array.from({ length: 50 }, (_, i) => i);

test('what runs at parts of the maximum runs after that was found', () => {
  for (const seed of SEEDS) {
    const order = roundOrder(CONTESTANT_NAMES, seed);
    expect(order.toSorted()).toEqual(CONTESTANT_NAMES.toSorted());
    expect(order.findIndex(isPaced)).toBeGreaterThan(order.indexOf('running'));
  }
});

test('rounds differ in their order', () => {
  expect(new Set(SEEDS.map((seed) => roundOrder(CONTESTANT_NAMES, seed).join())).size).toBe(SEEDS.length);
});
