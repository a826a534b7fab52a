import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createClaimGate } from './claim-gate.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('no more claims at once than are wanted, and none without a slot', () => {
  const gate = createClaimGate(10, () => {});
  expect(gate.admits(0, 2)).toBe(false);
  gate.begin();
  expect([gate.admits(100, 2), gate.admits(100, 1)]).toEqual([true, false]);
  gate.begin();
  expect([gate.admits(100, 2), gate.underWay]).toEqual([false, 2]);
  gate.end();
  expect(gate.admits(100, 2)).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

test('small claims are three milliseconds apart, and a large one does not wait', () => {
  let ready = 0;
  const gate = createClaimGate(10, () => ready++);
  expect(gate.admits(1, 2)).toBe(true);
  gate.begin();
  expect([gate.admits(9, 2), gate.admits(9, 2), ready]).toEqual([false, false, 0]);
  expect(gate.admits(10, 2)).toBe(true);
  vi.advanceTimersByTime(6);
  expect([ready, gate.admits(9, 2)]).toEqual([1, true]);
});

test('after a fault of the database it waits, and then asks', () => {
  let ready = 0;
  const gate = createClaimGate(10, () => ready++);
  gate.pause();
  expect(gate.admits(100, 2)).toBe(false);
  vi.advanceTimersByTime(499);
  expect([ready, gate.admits(100, 2)]).toEqual([0, false]);
  vi.advanceTimersByTime(2);
  expect([ready, gate.admits(100, 2)]).toEqual([1, true]);
});
