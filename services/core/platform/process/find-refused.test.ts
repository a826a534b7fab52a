import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { findRefused } from './find-refused.ts';

const refusal = (code = '23514') => Object.assign(new Error('no'), { name: 'PostgresError', code });

function prober(bad: ReadonlySet<number>) {
  let probes = 0;
  return {
    probes: () => probes,
    probe: async (items: readonly number[]) => {
      probes++;
      if (items.some((item) => bad.has(item))) throw refusal();
    },
  };
}

test('finds the refused items and no others', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 80 }), async (isBad) => {
      const items = [...isBad.keys()];
      const bad = new Set(items.filter((i) => isBad[i]));
      const { probe } = prober(bad);
      const found = await findRefused(items, probe, Number.POSITIVE_INFINITY);
      expect(found?.map(({ index }) => index)).toEqual([...bad]);
    }),
  );
});

test('finds one refused item of 500 with at most 18 probes', async () => {
  const { probe, probes } = prober(new Set([321]));
  const found = await findRefused([...Array(500).keys()], probe, 100);
  expect(found).toMatchObject([{ index: 321, error: { code: '23514' } }]);
  expect(probes()).toBeLessThanOrEqual(18);
});

test('gives up after the maximum number of probes', async () => {
  const items = [...Array(500).keys()];
  const { probe, probes } = prober(new Set(items));
  expect(await findRefused(items, probe, 64)).toBeUndefined();
  expect(probes()).toBe(64);
});

test('ends when it has found as many refused items as were asked for', async () => {
  const { probe, probes } = prober(new Set(Array(128).keys()));
  const found = await findRefused([...Array(128).keys()], probe, 64, 2);
  expect(found?.map(({ index }) => index)).toEqual([0, 1]);
  expect(probes()).toBe(8);
});

test('rejects with an error that is not about an item', async () => {
  const away = refusal('57P01');
  await expect(findRefused([1, 2], () => Promise.reject(away), 64)).rejects.toBe(away);
});
