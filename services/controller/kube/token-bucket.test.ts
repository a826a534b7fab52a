import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createTokenBucket } from './token-bucket.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a burst is granted at once, and further tokens at the rate', () => {
  const bucket = createTokenBucket({ burst: 3, perSecond: 2 });
  const taken = (): boolean[] => Array.from({ length: 4 }, () => bucket.tryTake());
  expect(taken()).toEqual([true, true, true, false]);
  vi.advanceTimersByTime(1_000);
  expect(taken()).toEqual([true, true, false, false]);
  vi.advanceTimersByTime(60_000);
  expect(taken()).toEqual([true, true, true, false]);
});

test('no wait exceeds the bound, and tokens granted beyond it are not owed', () => {
  const bucket = createTokenBucket({ burst: 1, perSecond: 1 }, 3_000);
  expect(Array.from({ length: 6 }, () => bucket.take())).toEqual([0, 1_000, 2_000, 3_000, 3_000, 3_000]);
  vi.advanceTimersByTime(4_000);
  expect(bucket.take()).toBe(0);
});

test('take() reserves future tokens, and later callers wait behind it', () => {
  const bucket = createTokenBucket({ burst: 1, perSecond: 2 });
  expect([bucket.take(), bucket.take(), bucket.take()]).toEqual([0, 500, 1_000]);
  expect(bucket.tryTake()).toBe(false);
  vi.advanceTimersByTime(1_500);
  expect([bucket.take(), bucket.take()]).toEqual([0, 500]);
});
