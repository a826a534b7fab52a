import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createRefusals, type Refusals } from './refusals.ts';

let refusals: Refusals;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  refusals = createRefusals();
});

afterEach(() => void vi.useRealTimers());

function taken(): void {
  vi.advanceTimersByTime(1);
  refusals.noteTaken();
  vi.advanceTimersByTime(1);
}

test('a row is confirmed once it is refused again after others were taken', () => {
  taken();
  expect([refusals.isConfirmed(1), refusals.isConfirmed(1)]).toEqual([false, false]);
  taken();
  expect([refusals.isConfirmed(2), refusals.isConfirmed(1), refusals.isConfirmed(2)]).toEqual([
    false,
    true,
    false,
  ]);
  expect(refusals.isConfirmed(1)).toBe(true);
});
