import { expect, test, vi } from 'vitest';
import { createFreshCache } from './fresh-cache.ts';

test('concurrent misses of one key load it once', async () => {
  const cache = createFreshCache<number>(10);
  let asked = 0;
  const load = () => Promise.resolve(++asked);
  expect(await Promise.all([cache.get('k', load), cache.get('k', load)])).toEqual([1, 1]);
  expect(await cache.get('k', load)).toBe(1);
});

test('a failed load is not cached', async () => {
  const cache = createFreshCache<number>(10);
  await expect(cache.get('k', () => Promise.reject(new Error('away')))).rejects.toThrow('away');
  expect(await cache.get('k', () => Promise.resolve(2))).toBe(2);
});

test('a load that finds nothing is shared and not cached', async () => {
  const cache = createFreshCache<number>(10);
  let asked = 0;
  const load = () => Promise.resolve(++asked > 1 ? asked : null);
  expect(await Promise.all([cache.get('k', load), cache.get('k', load)])).toEqual([null, null]);
  expect(cache.peek('k')).toBeUndefined();
  expect(await cache.get('k', load)).toBe(2);
});

test('a value that is loaded during drop, dropWhere or clear is returned but not cached', async () => {
  for (const drop of ['drop', 'dropWhere', 'clear'] as const) {
    const cache = createFreshCache<string>(10);
    const answer = Promise.withResolvers<string>();
    const first = cache.get('k', () => answer.promise);
    if (drop === 'drop') cache.drop('k');
    if (drop === 'dropWhere') cache.dropWhere(() => false);
    if (drop === 'clear') cache.clear();
    answer.resolve('old');
    expect(await first).toBe('old');
    expect(await cache.get('k', () => Promise.resolve('new'))).toBe('new');
  }
});

test('an entry is loaded again after its time to live', async () => {
  const cache = createFreshCache<number>(10, 30);
  let asked = 0;
  const load = () => Promise.resolve(++asked);
  await cache.get('k', load);
  await expect.poll(() => cache.get('k', load)).toBe(2);
});

test('entries that were loaded together expire at different times', async () => {
  const ttlMs = 60_000;
  const now = vi.spyOn(performance, 'now').mockReturnValue(1_000);
  const cache = createFreshCache<string>(1_000, ttlMs);
  const keys = Array.from({ length: 1_000 }, (_, n) => String(n));
  await Promise.all(keys.map((key) => cache.get(key, () => Promise.resolve(key))));
  const keptAt = (ms: number) => {
    now.mockReturnValue(1_000 + ms);
    return keys.filter((key) => cache.peek(key) !== undefined).length;
  };
  try {
    expect(keptAt(ttlMs / 2 - 1)).toBe(1_000);
    expect(Math.abs(keptAt(0.75 * ttlMs) - 500)).toBeLessThan(100);
    expect(keptAt(ttlMs + 1)).toBe(0);
  } finally {
    now.mockRestore();
  }
});

test('the least recently used entry is evicted', async () => {
  const cache = createFreshCache<string>(2);
  for (const key of ['a', 'b', 'c']) await cache.get(key, () => Promise.resolve(key));
  expect(cache.peek('a')).toBeUndefined();
  expect(cache.peek('c')).toBe('c');
});

test('the cache is also bounded by the total weight of its entries', async () => {
  const cache = createFreshCache<{ weight: number }>(100, 60_000, { max: 10, of: ({ weight }) => weight });
  for (const key of ['a', 'b', 'c']) await cache.get(key, async () => ({ weight: 4 }));
  expect(['a', 'b', 'c'].map((key) => cache.peek(key) !== undefined)).toEqual([false, true, true]);
  // One that is heavier than all may be is used, and not kept.
  expect(await cache.get('d', async () => ({ weight: 11 }))).toEqual({ weight: 11 });
  expect(cache.peek('d')).toBeUndefined();
});
