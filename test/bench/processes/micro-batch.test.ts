import { expect, test } from 'vitest';
import { createMicroBatch } from './micro-batch.ts';

test('concurrent rows are flushed in batches of at most rowsMax, and each gets its own result', async () => {
  const flushed: number[][] = [];
  const double = createMicroBatch<number, number>({ rowsMax: 3, flushesMax: 1 }, async (rows) => {
    flushed.push([...rows]);
    await Promise.resolve();
    return rows.map((row) => row * 2);
  });
  await expect(Promise.all([1, 2, 3, 4].map(double))).resolves.toEqual([2, 4, 6, 8]);
  expect(flushed).toEqual([[1, 2, 3], [4]]);
});

test('a failed flush rejects only its own rows', async () => {
  const work = createMicroBatch<number, number>({ rowsMax: 1, flushesMax: 2 }, async ([row = 0]) => {
    if (row === 1) throw new Error('refused');
    return [row];
  });
  const settled = await Promise.allSettled([1, 2].map(work));
  expect(settled.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
});
