import { expect, test } from 'vitest';
import { createMemoryBudget } from './memory-budget.ts';

test('an owner gets at most half of the free bytes, so later owners still find room', () => {
  const budget = createMemoryBudget(64);
  const granted = ['a', 'b', 'c', 'd'].map((owner) => {
    let bytes = 0;
    while (budget.reserve(owner, 1) !== undefined) bytes += 1;
    return bytes;
  });
  expect(granted).toEqual([32, 16, 8, 4]);
  expect(budget.taken()).toBe(60);
});

test('a reservation frees its bytes once, even if it is released twice', () => {
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

test('a waiting request gets released bytes, and a request that can never fit does not wait', async () => {
  const budget = createMemoryBudget(64);
  const held = budget.reserve('a', 30);
  const waiting = budget.await('a', 20, new AbortController().signal);
  const other = budget.await('b', 30, new AbortController().signal);
  held?.release();
  const reservation = await waiting;
  expect(budget.taken()).toBe(20);
  reservation?.release();
  expect((await other)?.grow(2)).toBe(true);
  expect(await budget.await('c', 33, new AbortController().signal)).toBeUndefined();
});

test('an aborted request stops waiting, and the waiting requests of one owner are limited', async () => {
  const budget = createMemoryBudget(64);
  budget.reserve('a', 30);
  const going = new AbortController();
  const waiting = Array.from({ length: 32 }, () => budget.await('a', 20, going.signal));
  expect(await budget.await('a', 20, going.signal)).toBeUndefined();
  going.abort();
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([undefined]));
  expect(await budget.await('a', 1, going.signal)).toBeUndefined();
});
