import { describe, expect, test } from 'vitest';
import { createMicroBatch, QueueFullError, type MicroBatchOptions } from './micro-batch.ts';

function setup(overrides: Partial<Omit<MicroBatchOptions<number, number>, 'flush'>> = {}) {
  const flushes: { items: readonly number[]; done: PromiseWithResolvers<readonly number[]> }[] = [];
  const batch = createMicroBatch<number, number>({
    itemsMax: 10,
    flushesMax: 1,
    queuedMax: 100,
    ...overrides,
    flush: (items) => {
      const done = Promise.withResolvers<readonly number[]>();
      flushes.push({ items, done });
      return done.promise;
    },
  });
  return { batch, flushes };
}

describe('micro-batch', () => {
  test('an idle batcher flushes the items of one tick together', async () => {
    const { batch, flushes } = setup();
    const results = [batch.add(1), batch.add(2)];
    await expect.poll(() => flushes.length).toBe(1);
    expect(flushes[0]?.items).toEqual([1, 2]);
    flushes[0]?.done.resolve([10, 20]);
    expect(await Promise.all(results)).toEqual([10, 20]);
  });

  test.each([
    ['one flush at a time', {}],
    ['a second flush in reserve', { flushesMax: 2, overlapAfterMs: 60_000 }],
  ])('with %s, items added during a flush are all flushed by the next one', async (_, options) => {
    const { batch, flushes } = setup(options);
    const first = batch.add(1);
    await expect.poll(() => flushes.length).toBe(1);
    const rest = [batch.add(2), batch.add(3)];
    flushes[0]?.done.resolve([1]);
    await first;
    await expect.poll(() => flushes.length).toBe(2);
    expect(flushes[1]?.items).toEqual([2, 3]);
    flushes[1]?.done.resolve([2, 3]);
    await Promise.all(rest);
  });

  test('a pause that ends in the turn in which enough items arrive causes one flush', async () => {
    let [running, most] = [0, 0];
    const batch = createMicroBatch<number, number>({
      itemsMax: 4,
      flushesMax: 1,
      queuedMax: 100,
      gatherMs: 15,
      async flush(items) {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, items[0] === 0 ? 1 : 30));
        running--;
        return items;
      },
    });
    await batch.add(0);
    const rest = [batch.add(1)];
    await new Promise<void>((resolve) =>
      setImmediate(() => {
        const until = performance.now() + 20;
        while (performance.now() < until);
        for (let item = 2; item <= 8; item++) rest.push(batch.add(item));
        resolve();
      }),
    );
    expect(await Promise.all(rest)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(most).toBe(1);
  });

  test('a slow flush is overtaken by a second one', async () => {
    const { batch, flushes } = setup({ flushesMax: 2, overlapAfterMs: 20 });
    const first = batch.add(1);
    await expect.poll(() => flushes.length).toBe(1);
    const second = batch.add(2);
    await expect.poll(() => flushes.length).toBe(2);
    flushes[1]?.done.resolve([2]);
    expect(await second).toBe(2);
    flushes[0]?.done.resolve([1]);
    expect(await first).toBe(1);
  });

  test('items added soon after a flush are gathered until there are enough', async () => {
    const { batch, flushes } = setup({ gatherMs: 60_000, enough: 3 });
    const first = batch.add(1);
    await expect.poll(() => flushes.length).toBe(1);
    flushes[0]?.done.resolve([1]);
    await first;
    const rest = [batch.add(2), batch.add(3)];
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(flushes).toHaveLength(1);
    rest.push(batch.add(4));
    await expect.poll(() => flushes.length).toBe(2);
    expect(flushes[1]?.items).toEqual([2, 3, 4]);
    flushes[1]?.done.resolve([2, 3, 4]);
    await Promise.all(rest);
  });

  test('gathered items are flushed after gatherMs', async () => {
    const { batch, flushes } = setup({ gatherMs: 50 });
    const begun = performance.now();
    const first = batch.add(1);
    await expect.poll(() => flushes.length, { interval: 1 }).toBe(1);
    flushes[0]?.done.resolve([1]);
    await first;
    const second = batch.add(2);
    await expect.poll(() => flushes.length, { interval: 1 }).toBe(2);
    expect(performance.now() - begun).toBeGreaterThan(45);
    flushes[1]?.done.resolve([2]);
    await second;
  });

  test('a batch holds at most itemsMax items', async () => {
    const { batch, flushes } = setup({ itemsMax: 2, flushesMax: 2 });
    const all = [1, 2, 3].map((n) => batch.add(n));
    await expect.poll(() => flushes.length).toBe(2);
    expect(flushes.map((flush) => flush.items)).toEqual([[1, 2], [3]]);
    for (const flush of flushes) flush.done.resolve(flush.items);
    expect(await Promise.all(all)).toEqual([1, 2, 3]);
  });

  test('a batch stays within weightMax or has one item, and light items pass heavy ones', async () => {
    const { batch, flushes } = setup({ weightMax: 10, weightOf: (item) => item, ownerOf: String });
    const results = [9, 4, 30, 1, 6].map((item) => batch.add(item));
    for (const expected of [[9, 1], [4, 6], [30]]) {
      await expect.poll(() => flushes.length).toBeGreaterThan(0);
      const { items, done } = flushes.shift() ?? { items: [], done: Promise.withResolvers() };
      expect(items).toEqual(expected);
      done.resolve(items);
    }
    expect(await Promise.all(results)).toEqual([9, 4, 30, 1, 6]);
  });

  test('a full waiting batch is flushed before the previous results are delivered', async () => {
    const { batch, flushes } = setup({ itemsMax: 2 });
    const order: string[] = [];
    const first = batch.add(1).then(() => order.push(`one is answered, ${flushes.length} begun`));
    await expect.poll(() => flushes.length).toBe(1);
    const rest = [batch.add(2), batch.add(3), batch.add(4)];
    flushes[0]?.done.resolve([1]);
    await first;
    expect(order).toEqual(['one is answered, 2 begun']);
    expect(flushes[1]?.items).toEqual([2, 3]);
    flushes[1]?.done.resolve([2, 3]);
    await expect.poll(() => flushes.length).toBe(3);
    flushes[2]?.done.resolve([4]);
    expect(await Promise.all(rest)).toEqual([2, 3, 4]);
  });

  test('a full queue refuses at once', async () => {
    const { batch } = setup({ queuedMax: 1 });
    void batch.add(1);
    await expect(batch.add(2)).rejects.toBeInstanceOf(QueueFullError);
  });

  test('a failed flush fails its own items only', async () => {
    const { batch, flushes } = setup({ itemsMax: 1 });
    const [first, second] = [batch.add(1), batch.add(2)];
    await expect.poll(() => flushes.length).toBe(1);
    flushes[0]?.done.reject(new Error('lost'));
    await expect(first).rejects.toThrow('lost');
    await expect.poll(() => flushes.length).toBe(2);
    flushes[1]?.done.resolve([2]);
    expect(await second).toBe(2);
  });

  test('drain waits for everything that was added', async () => {
    const { batch, flushes } = setup({ itemsMax: 1 });
    const all = [batch.add(1), batch.add(2)];
    let drained = false;
    const draining = batch.drain().then(() => (drained = true));
    await expect.poll(() => flushes.length).toBe(1);
    flushes[0]?.done.resolve([1]);
    await expect.poll(() => flushes.length).toBe(2);
    expect(drained).toBe(false);
    flushes[1]?.done.resolve([2]);
    await draining;
    await Promise.all(all);
  });
});
