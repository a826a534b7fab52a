import { expect, test } from 'vitest';
import { shareAnswer } from './share-answer.ts';

function setup() {
  let now = 0;
  const runs: PromiseWithResolvers<number>[] = [];
  const ask = shareAnswer(
    () => {
      const run = Promise.withResolvers<number>();
      runs.push(run);
      return run.promise;
    },
    1_000,
    () => now,
  );
  return { ask, runs, pass: (milliseconds: number) => (now += milliseconds) };
}

test('those who ask during a run get its answer, however long it takes', async () => {
  const b = setup();
  const first = b.ask();
  b.pass(60_000);
  const second = b.ask();
  b.runs[0]?.resolve(1);
  expect([await first, await second, b.runs.length]).toEqual([1, 1, 1]);
});

test('an answer is kept from the end of its run for the given time', async () => {
  const b = setup();
  const first = b.ask();
  b.pass(5_000);
  b.runs[0]?.resolve(1);
  await first;
  b.pass(999);
  expect([await b.ask(), b.runs.length]).toEqual([1, 1]);
  b.pass(1);
  const next = b.ask();
  b.runs[1]?.resolve(2);
  expect([await next, b.runs.length]).toEqual([2, 2]);
});

test('a failure is kept for the same time, and then forgotten', async () => {
  const b = setup();
  const first = b.ask();
  b.runs[0]?.reject(new Error('away'));
  await expect(first).rejects.toThrow('away');
  await expect(b.ask()).rejects.toThrow('away');
  b.pass(1_000);
  const next = b.ask();
  b.runs[1]?.resolve(1);
  expect(await next).toBe(1);
});
