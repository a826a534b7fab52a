import { expect, test } from 'vitest';
import { backoffMs, doubledMs } from './pause.ts';

const BOUNDS = { minMs: 800, maxMs: 30_000 };

test('a delay doubles from the minimum and ends at the maximum, however often it is doubled', () => {
  const times = [0, 1, 5, 6, 1_000_000];
  expect(times.map((n) => doubledMs(n, BOUNDS))).toEqual([800, 1_600, 25_600, 30_000, 30_000]);
});

test('a backoff is the minimum at first, and then random between it and the doubled delay', () => {
  expect(backoffMs(0, BOUNDS)).toBe(800);
  const many = Array.from({ length: 1_000 }, () => backoffMs(3, BOUNDS));
  expect(Math.min(...many)).toBeGreaterThanOrEqual(800);
  expect(Math.max(...many)).toBeLessThanOrEqual(6_400);
  expect(new Set(many).size).toBeGreaterThan(100);
});
