import { expect, test } from 'vitest';
import { createDutyCycle } from './duty-cycle.ts';

function setup(gapMsMin?: number) {
  let time = 1_000;
  const cycle = createDutyCycle(() => time, gapMsMin);
  return { cycle, pass: (ms: number) => (time += ms) };
}

test.each([
  ['10 ms', 10, undefined, 500],
  ['10 ms, with a longer minimum', 10, 5_000, 5_000],
  ['200 ms, with a shorter minimum', 200, 5_000, 10_000],
])('work that took %s is due again after fifty times that, or the minimum', (_, tookMs, gapMsMin, gapMs) => {
  const { cycle, pass } = setup(gapMsMin);
  cycle.begun();
  pass(tookMs);
  cycle.ended();
  expect(cycle.isDue()).toBe(false);
  pass(gapMs - 1);
  expect(cycle.isDue()).toBe(false);
  pass(1);
  expect(cycle.isDue()).toBe(true);
});

test('work is due at first', () => {
  expect(setup().cycle.isDue()).toBe(true);
});

test('work that was broken off is due, even if it began before it was', () => {
  const { cycle, pass } = setup();
  cycle.begun();
  pass(100);
  cycle.ended();
  expect(cycle.isDue()).toBe(false);
  cycle.begun();
  pass(1);
  expect(cycle.isDue()).toBe(true);
});
