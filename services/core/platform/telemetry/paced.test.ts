import { expect, test } from 'vitest';
import { paced } from './paced.ts';

test('a value is read again after fifty times its read duration, and is cached until then', async () => {
  let now = 0;
  let reads = 0;
  const read = paced(
    async () => {
      now += 100;
      return ++reads;
    },
    () => now,
  );
  expect([await read(), await read()]).toEqual([1, 1]);
  now += 4_999;
  expect(await read()).toBe(1);
  now += 1;
  expect(await read()).toBe(2);
});

test('concurrent calls share one read', async () => {
  const answers = Promise.withResolvers<number>();
  let reads = 0;
  const read = paced(() => {
    reads += 1;
    return answers.promise;
  });
  const asked = [read(), read()];
  answers.resolve(7);
  expect([await Promise.all(asked), reads]).toEqual([[7, 7], 1]);
});

test('a failure is cached in the same way, and is replaced by the next read', async () => {
  let now = 0;
  let fails = true;
  const read = paced(
    async () => {
      now += 10;
      if (fails) throw new Error('away');
      return 1;
    },
    () => now,
  );
  await expect(read()).rejects.toThrow('away');
  fails = false;
  await expect(read()).rejects.toThrow('away');
  now += 500;
  expect(await read()).toBe(1);
});

test('a read that failed slowly is repeated after a minute', async () => {
  let now = 0;
  let fails = true;
  const read = paced(
    async () => {
      now += 6_000;
      if (fails) throw new Error('away');
      return 1;
    },
    () => now,
  );
  await expect(read()).rejects.toThrow('away');
  fails = false;
  now += 59_999;
  await expect(read()).rejects.toThrow('away');
  now += 1;
  expect(await read()).toBe(1);
  now += 60_000;
  expect(await read()).toBe(1);
  expect(now).toBe(132_000);
});

test('a single slow read, such as the first one after an outage, is repeated as soon as a usual one', async () => {
  let now = 0;
  let reads = 0;
  const took = [10, 6_000, 6_000, 10];
  const read = paced(
    async () => {
      now += took[reads] ?? 10;
      return ++reads;
    },
    () => now,
  );
  expect(await read()).toBe(1);
  now += 500;
  expect(await read()).toBe(2);
  now += 500;
  expect(await read()).toBe(3);
  // The second slow read in a row shows that reads are slow now.
  now += 299_999;
  expect(await read()).toBe(3);
  now += 1;
  expect(await read()).toBe(4);
});
