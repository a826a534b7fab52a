import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bisectFaults, findFaults } from './bisect-faults.ts';

const refusal = Object.assign(new Error('no'), { name: 'PostgresError', code: '22P05' });
const away = Object.assign(new Error('away'), { name: 'PostgresError', code: '57P01' });

/** Creates a database that rejects some items, and is unavailable after `callsMax` calls. */
function setup(refused: readonly string[], callsMax = Number.POSITIVE_INFINITY) {
  const batches: string[] = [];
  const store = (items: readonly string[]): Promise<string[]> => {
    batches.push(items.join(''));
    if (batches.length > callsMax) return Promise.reject(away);
    if (items.some((one) => refused.includes(one))) return Promise.reject(refusal);
    return Promise.resolve(items.map((one) => `${one} stored`));
  };
  const fail = (items: readonly string[], error: unknown): string[] =>
    items.map((one) => `${one} ${(error as Error).message}`);
  return { batches, run: (items: string) => bisectFaults(items.split(''), store, fail) };
}

test('a batch without a refused item costs one call', async () => {
  const { batches, run } = setup([]);
  expect(await run('abcd')).toEqual(['a stored', 'b stored', 'c stored', 'd stored']);
  expect(batches).toEqual(['abcd']);
});

test('a refused item fails alone, and the results keep their order', async () => {
  const { batches, run } = setup(['c']);
  expect(await run('abcde')).toEqual(['a stored', 'b stored', 'c no', 'd stored', 'e stored']);
  expect(batches).toEqual(['abcde', 'abc', 'ab', 'c', 'de']);
});

test('a lost database fails the rest without a retry, and stored items keep their results', async () => {
  const { batches, run } = setup(['b'], 2);
  expect(await run('abcd')).toEqual(['a away', 'b away', 'c away', 'd away']);
  expect(batches).toEqual(['abcd', 'ab', 'a', 'b', 'cd']);
  const later = setup(['d'], 2);
  expect(await later.run('abcd')).toEqual(['a stored', 'b stored', 'c away', 'd away']);
});

test('an error while failing one half does not keep the other half from being stored', async () => {
  const stored: string[] = [];
  const store = async (items: readonly string[]): Promise<readonly string[]> => {
    if (items.includes('a')) throw refusal;
    stored.push(...items);
    return items;
  };
  const fail = (): never => {
    throw away;
  };
  await expect(bisectFaults(['a', 'b', 'c', 'd'], store, fail)).rejects.toBe(away);
  expect(stored).toEqual(['b', 'c', 'd']);
});

function prober(bad: ReadonlySet<number>) {
  let probes = 0;
  return {
    probes: () => probes,
    probe: async (items: readonly number[]) => {
      probes++;
      if (items.some((item) => bad.has(item))) throw refusal;
    },
  };
}

describe('a search for faults that stores nothing', () => {
  test('finds the refused items and no others', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 80 }), async (isBad) => {
        const items = [...isBad.keys()];
        const bad = new Set(items.filter((i) => isBad[i]));
        const { probe } = prober(bad);
        const found = await findFaults(items, probe, Number.POSITIVE_INFINITY);
        expect(found?.map(({ index }) => index)).toEqual([...bad]);
      }),
    );
  });

  test('finds one refused item of 500 with at most 18 probes', async () => {
    const { probe, probes } = prober(new Set([321]));
    const found = await findFaults([...Array(500).keys()], probe, 100);
    expect(found).toMatchObject([{ index: 321, error: refusal }]);
    expect(probes()).toBeLessThanOrEqual(18);
  });

  test('gives up after the maximum number of probes', async () => {
    const items = [...Array(500).keys()];
    const { probe, probes } = prober(new Set(items));
    expect(await findFaults(items, probe, 64)).toBeUndefined();
    expect(probes()).toBe(64);
  });

  test('ends when it has found as many refused items as were asked for', async () => {
    const { probe, probes } = prober(new Set(Array(128).keys()));
    const found = await findFaults([...Array(128).keys()], probe, 64, 2);
    expect(found?.map(({ index }) => index)).toEqual([0, 1]);
    expect(probes()).toBe(8);
  });

  test('rejects with an error that is not about an item', async () => {
    await expect(findFaults([1, 2], () => Promise.reject(away), 64)).rejects.toBe(away);
  });
});
