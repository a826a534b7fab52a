import { expect, test } from 'vitest';
import { soakPlan } from './soak-plan.ts';

test('an hour compares its last ten minutes with its first', () => {
  expect(soakPlan(60)).toEqual({ slices: 60, sliceMs: 60_000, window: 10, snapshot: [24, 36] });
});

test.each([1, 2, 7, 25, 90, 600])('%i minutes have a first, a middle and a last part', (minutes) => {
  const { slices, sliceMs, window, snapshot } = soakPlan(minutes);
  expect(slices * sliceMs).toBeGreaterThanOrEqual(minutes * 60_000);
  expect(window).toBeGreaterThanOrEqual(1);
  expect(3 * window).toBeLessThanOrEqual(slices);
  // Neither window contains a slice with an open snapshot.
  expect(snapshot[0]).toBeGreaterThanOrEqual(window);
  expect(snapshot[1]).toBeLessThanOrEqual(slices - window);
  expect(snapshot[1]).toBeGreaterThan(snapshot[0]);
});
