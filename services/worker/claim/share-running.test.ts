import { expect, test } from 'vitest';
import { shareRunning } from './share-running.ts';

test('who asks together is answered together, and the next one anew', async () => {
  let asked = 0;
  const ask = shareRunning(async () => ++asked);
  expect(await Promise.all([ask(), ask()])).toEqual([1, 1]);
  expect(await ask()).toBe(2);
});

test('a failure is shared too, and not remembered', async () => {
  let asked = 0;
  const ask = shareRunning(() =>
    ++asked === 1 ? Promise.reject(new Error('away')) : Promise.resolve(asked),
  );
  expect(await Promise.allSettled([ask(), ask()])).toMatchObject([
    { status: 'rejected' },
    { status: 'rejected' },
  ]);
  expect(await ask()).toBe(2);
});
