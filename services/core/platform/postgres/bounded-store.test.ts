import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { boundedStore } from './bounded-store.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const silent = (): Promise<never> => new Promise(() => undefined);

/** Returns after how many milliseconds the promise is rejected. */
async function rejectedAfter(work: Promise<unknown>): Promise<number> {
  const startedAt = Date.now();
  const rejected = work.then(
    () => Number.NaN,
    () => Date.now() - startedAt,
  );
  await vi.runAllTimersAsync();
  return rejected;
}

test('an operation without an answer fails after its timeout, which can be set per operation', async () => {
  const store = boundedStore({ find: silent, purgeSome: silent }, 1_000, { purgeSome: 60_000 });
  expect(await rejectedAfter(store.find())).toBe(1_000);
  expect(await rejectedAfter(store.purgeSome())).toBe(60_000);
});

test('an operation keeps its arguments, result and error, and leaves no timer', async () => {
  const store = boundedStore(
    {
      find: async (slug: string, most: number) => `${slug} ${most}`,
      apply: () => Promise.reject(new Error('refused')),
    },
    1_000,
  );
  expect(await store.find('acme', 3)).toBe('acme 3');
  await expect(store.apply()).rejects.toThrow('refused');
  expect(vi.getTimerCount()).toBe(0);
});
