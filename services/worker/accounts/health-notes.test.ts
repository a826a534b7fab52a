import { expect, test } from 'vitest';
import { createHealthNotes } from './health-notes.ts';

function setup() {
  const begun: { readonly text: string; readonly end: PromiseWithResolvers<void> }[] = [];
  const failed: unknown[] = [];
  const note = createHealthNotes(
    (accountId, health) => {
      const end = Promise.withResolvers<void>();
      begun.push({ text: `${accountId} ${health}`, end });
      return end.promise;
    },
    (error) => failed.push(error),
  );
  const finish = async (nth: number, error?: Error): Promise<void> => {
    if (error === undefined) begun[nth]?.end.resolve();
    else begun[nth]?.end.reject(error);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { note, finish, failed, texts: () => begun.map(({ text }) => text) };
}

test('an earlier health of an account is never stored after a later one', async () => {
  const { note, finish, texts } = setup();
  note('a', 'probing');
  note('a', 'healthy');
  note('b', 'open');
  expect(texts()).toEqual(['a probing', 'b open']);
  await finish(0);
  expect(texts()).toEqual(['a probing', 'b open', 'a healthy']);
  await finish(2);
  note('a', 'open');
  expect(texts().at(-1)).toBe('a open');
});

test('of several changes during a write only the last one is stored', async () => {
  const { note, finish, texts } = setup();
  note('a', 'open');
  for (const health of ['probing', 'open', 'probing', 'healthy'] as const) note('a', health);
  await finish(0);
  await finish(1);
  expect(texts()).toEqual(['a open', 'a healthy']);
});

test('a failed write is reported and does not hold back the next one', async () => {
  const { note, finish, texts, failed } = setup();
  note('a', 'probing');
  note('a', 'healthy');
  const error = new Error('no connection');
  await finish(0, error);
  expect(failed).toEqual([error]);
  expect(texts()).toEqual(['a probing', 'a healthy']);
  await finish(1);
  note('a', 'open');
  expect(texts()).toHaveLength(3);
});
