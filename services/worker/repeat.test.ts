import { expect, test } from 'vitest';
import { repeat } from './repeat.ts';

test('a task runs again after its interval, never twice at once, and stops', async () => {
  let [running, most, runs] = [0, 0, 0];
  const task = repeat(
    async () => {
      most = Math.max(most, ++running);
      runs++;
      await new Promise((resolve) => setImmediate(resolve));
      running--;
    },
    { everyMs: 1, onError: () => undefined },
  );
  task.wake();
  await expect.poll(() => runs).toBeGreaterThan(3);
  await task.stop();
  const after = runs;
  await new Promise((resolve) => setImmediate(resolve));
  expect([most, runs]).toEqual([1, after]);
});

test('a failure is reported, and the task continues', async () => {
  const errors: unknown[] = [];
  const task = repeat(() => Promise.reject(new Error('no')), {
    everyMs: 1,
    onError: (error) => errors.push(error),
  });
  await expect.poll(() => errors.length).toBeGreaterThan(1);
  await task.stop();
});

test('a wake-up during a run leads to another run', async () => {
  let runs = 0;
  const gate = Promise.withResolvers<void>();
  const task = repeat(
    async () => {
      runs++;
      if (runs === 1) await gate.promise;
    },
    { everyMs: 1_000_000, onError: () => undefined },
  );
  await expect.poll(() => runs).toBe(1);
  task.wake();
  gate.resolve();
  await expect.poll(() => runs).toBe(2);
  await task.stop();
});
