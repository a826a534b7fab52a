import { expect, expectTypeOf, test, vi } from 'vitest';
import { epochMs, monotonicMs, type EpochClock, type MonotonicClock } from './clock.ts';

test('neither clock is accepted where the other is expected; any function is accepted as either', () => {
  expectTypeOf<MonotonicClock>().not.toExtend<EpochClock>();
  expectTypeOf<EpochClock>().not.toExtend<MonotonicClock>();
  expectTypeOf<() => number>().toExtend<EpochClock>();
  expectTypeOf<() => number>().toExtend<MonotonicClock>();
  vi.useFakeTimers({ now: 5_000 });
  try {
    const begunAt = monotonicMs();
    vi.advanceTimersByTime(100);
    vi.setSystemTime(1_000);
    expect([epochMs(), monotonicMs() - begunAt]).toEqual([1_000, 100]);
  } finally {
    vi.useRealTimers();
  }
});
