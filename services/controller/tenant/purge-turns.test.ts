import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createPurgeTurns } from './purge-turns.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Turns on fake timers; `woken` holds the purges woken so far. */
function setup() {
  const turns = createPurgeTurns();
  const woken: string[] = [];
  return {
    woken,
    take: (uid: string) => turns.take(uid, () => void woken.push(uid)),
    isWaiting: turns.isWaiting,
    end: turns.end,
    pass: (ms: number) => void vi.advanceTimersByTime(ms),
  };
}

test('one turn at a time, in the order of the requests, each announced once', () => {
  const { take, end, woken } = setup();
  expect(['a', 'b', 'c', 'b'].map(take)).toEqual([true, false, false, false]);
  end();
  expect(woken).toEqual(['b']);
  expect(['a', 'c', 'b'].map(take)).toEqual([false, false, true]);
  end();
  expect(take('c')).toBe(true);
  end();
  expect(take('a')).toBe(true);
  expect(woken).toEqual(['b', 'c', 'a']);
});

test('without others in line a purge takes turn after turn', () => {
  const { take, end, woken } = setup();
  for (let i = 0; i < 3; i += 1) {
    expect(take('a')).toBe(true);
    end();
  }
  expect(woken).toEqual([]);
});

test('only a purge in line that may not take the turn is waiting', () => {
  const { take, end, isWaiting } = setup();
  take('a');
  expect(isWaiting('b')).toBe(false);
  take('b');
  expect([isWaiting('a'), isWaiting('b')]).toEqual([false, true]);
  end();
  expect(isWaiting('b')).toBe(false);
});

test('a turn that is not used for ten seconds goes to the next in line', () => {
  const { take, end, isWaiting, pass, woken } = setup();
  ['a', 'b', 'c'].forEach(take);
  end();
  pass(9_999);
  expect(take('c')).toBe(false);
  pass(1);
  expect(isWaiting('c')).toBe(false);
  expect(take('c')).toBe(true);
  expect(take('b')).toBe(false);
  end();
  expect(woken).toEqual(['b', 'c', 'b']);
});

test('without others in line a turn that is not used for ten seconds goes to whoever asks next', () => {
  const { take, end, pass, woken } = setup();
  ['a', 'b'].forEach(take);
  end();
  pass(10_000);
  expect(take('c')).toBe(true);
  expect(woken).toEqual(['b']);
});

test('a turn is not lost because the wall clock is set forward', () => {
  const { take, end, isWaiting } = setup();
  ['a', 'b', 'c'].forEach(take);
  end();
  vi.setSystemTime(Date.now() + 3_600_000);
  expect(isWaiting('c')).toBe(true);
  expect(take('c')).toBe(false);
  expect(take('b')).toBe(true);
});

test('a long turn is not lost', () => {
  const { take, pass } = setup();
  take('a');
  pass(3_600_000);
  expect(take('b')).toBe(false);
});

test('ten thousand purges ask twice each, and none waits for a timeout', () => {
  const { take, end, woken, isWaiting } = setup();
  const names = Array.from({ length: 10_000 }, (_, n) => `t${n}`);
  expect(names.filter(take)).toEqual(['t0']);
  for (let n = 1; n < names.length; n += 1) {
    end();
    expect(isWaiting(woken.at(-1) ?? '')).toBe(false);
    expect(take(woken.at(-1) ?? '')).toBe(true);
  }
  expect(woken).toEqual(names.slice(1));
});

test('a purge that was woken and does not take its turn lets the next one be woken', () => {
  const { take, end, pass, woken } = setup();
  ['a', 'b', 'c', 'd'].forEach(take);
  end();
  expect(woken).toEqual(['b']);
  pass(10_000);
  expect(woken).toEqual(['b', 'c']);
  expect(take('c')).toBe(true);
  pass(60_000);
  expect(woken).toEqual(['b', 'c']);
});
