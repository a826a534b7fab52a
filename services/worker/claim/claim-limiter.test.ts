import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createClaimLimiter } from './claim-limiter.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('allows no more concurrent claims than the maximum, and none without a free slot', () => {
  const limiter = createClaimLimiter(10, () => {});
  expect(limiter.admits(0, 2)).toBe(false);
  limiter.begin();
  expect([limiter.admits(100, 2), limiter.admits(100, 1)]).toEqual([true, false]);
  limiter.begin();
  expect([limiter.admits(100, 2), limiter.underWay]).toEqual([false, 2]);
  limiter.end();
  expect(limiter.admits(100, 2)).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

test('small claims are spaced by a few milliseconds, and a large one does not wait', () => {
  let ready = 0;
  const limiter = createClaimLimiter(10, () => ready++);
  expect(limiter.admits(1, 2)).toBe(true);
  limiter.begin();
  expect([limiter.admits(9, 2), limiter.admits(9, 2), ready]).toEqual([false, false, 0]);
  expect(limiter.admits(10, 2)).toBe(true);
  vi.advanceTimersByTime(6);
  expect([ready, limiter.admits(9, 2)]).toEqual([1, true]);
});

test('after a database fault, claims pause for half a second', () => {
  let ready = 0;
  const limiter = createClaimLimiter(10, () => ready++);
  limiter.pause();
  expect(limiter.admits(100, 2)).toBe(false);
  vi.advanceTimersByTime(499);
  expect([ready, limiter.admits(100, 2)]).toEqual([0, false]);
  vi.advanceTimersByTime(2);
  expect([ready, limiter.admits(100, 2)]).toEqual([1, true]);
});
