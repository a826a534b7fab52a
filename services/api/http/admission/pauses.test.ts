import { expect, test } from 'vitest';
import { createPauses } from './pauses.ts';

test('work beyond a slice is followed by a pause proportional to its duration', async () => {
  const clock = { now: 0 };
  const waited: number[] = [];
  const wait = async (ms: number): Promise<void> => {
    waited.push(ms);
    clock.now += ms;
  };
  const pause = createPauses(2, 3, { monotonicMs: () => clock.now, wait });
  clock.now += 1;
  expect(pause()).toBeUndefined();
  clock.now += 4;
  await pause();
  expect(waited).toEqual([15]);
  // Pauses do not count as work.
  clock.now += 1;
  expect(pause()).toBeUndefined();
  clock.now += 1;
  await pause();
  expect(waited).toEqual([15, 6]);
});
