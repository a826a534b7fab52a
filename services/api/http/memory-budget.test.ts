import { expect, test } from 'vitest';
import { createMemoryBudget } from './memory-budget.ts';

test('one alone gets half, and those who come later still find room', () => {
  const budget = createMemoryBudget(64);
  const granted = ['a', 'b', 'c', 'd'].map((owner) => {
    let bytes = 0;
    while (budget.reserve(owner, 1) !== undefined) bytes += 1;
    return bytes;
  });
  expect(granted).toEqual([32, 16, 8, 4]);
  expect(budget.taken()).toBe(60);
});

test('what is released is free again, once', () => {
  const budget = createMemoryBudget(64);
  const reservation = budget.reserve('a', 20);
  expect(reservation?.grow(12)).toBe(true);
  expect(reservation?.grow(1)).toBe(false);
  expect(budget.reserve('a', 1)).toBeUndefined();
  const other = budget.reserve('b', 10);
  reservation?.release();
  reservation?.release();
  expect(budget.taken()).toBe(10);
  expect(reservation?.grow(1)).toBe(false);
  other?.release();
  expect([budget.taken(), budget.reserve('a', 32) === undefined]).toEqual([0, false]);
});
