import { expect, test } from 'vitest';
import { CONTESTANT_NAMES, isPaced } from '../contestants.ts';
import { roundOrder } from './round.ts';

const SEEDS = Array.from({ length: 50 }, (_, i) => i);

test('contestants paced by the maximum run after running, which measures it', () => {
  for (const seed of SEEDS) {
    const order = roundOrder(CONTESTANT_NAMES, seed);
    expect(order.toSorted()).toEqual(CONTESTANT_NAMES.toSorted());
    expect(order.findIndex(isPaced)).toBeGreaterThan(order.indexOf('running'));
  }
});

test('each seed gives another order', () => {
  expect(new Set(SEEDS.map((seed) => roundOrder(CONTESTANT_NAMES, seed).join())).size).toBe(SEEDS.length);
});
