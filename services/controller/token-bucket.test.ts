import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createTokenBucket } from './token-bucket.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a burst is had at once, and what comes after it at its rate', () => {
  const bucket = createTokenBucket({ burst: 3, perSecond: 2 });
  const taken = (): boolean[] => Array.from({ length: 4 }, () => bucket.tryTake());
  expect(taken()).toEqual([true, true, true, false]);
  vi.advanceTimersByTime(1_000);
  expect(taken()).toEqual([true, true, false, false]);
  vi.advanceTimersByTime(60_000);
  expect(taken()).toEqual([true, true, true, false]);
});

test('nobody waits for longer than the bound, and what is taken beyond it is not owed', () => {
  const bucket = createTokenBucket({ burst: 1, perSecond: 1 }, 3_000);
  expect(Array.from({ length: 6 }, () => bucket.take())).toEqual([0, 1_000, 2_000, 3_000, 3_000, 3_000]);
  vi.advanceTimersByTime(4_000);
  expect(bucket.take()).toBe(0);
});

test('who takes what has yet to come waits behind those before', () => {
  const bucket = createTokenBucket({ burst: 1, perSecond: 2 });
  expect([bucket.take(), bucket.take(), bucket.take()]).toEqual([0, 500, 1_000]);
  expect(bucket.tryTake()).toBe(false);
  vi.advanceTimersByTime(1_500);
  expect([bucket.take(), bucket.take()]).toEqual([0, 500]);
});
