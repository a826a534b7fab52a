import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { sampledSeries, type Sample } from './sampled-metrics.ts';

function setup(always: readonly { state: string }[] = []) {
  const registry = new Registry();
  const gauge = sampledSeries(registry, { name: 'things', help: 'x', labelNames: ['state'] }, always);
  return {
    gauge,
    async shown(): Promise<unknown[]> {
      const [metric] = await registry.getMetricsAsJSON();
      return (metric?.values ?? []).map(({ labels, value }) => [labels['state'], value]);
    },
  };
}

test('series without a sample are 0', async () => {
  const s = setup([{ state: 'up' }, { state: 'down' }]);
  expect(await s.shown()).toEqual([
    ['up', 0],
    ['down', 0],
  ]);
  s.gauge.from(async () => [{ labels: { state: 'down' }, value: 3 }]);
  expect(await s.shown()).toEqual([
    ['up', 0],
    ['down', 3],
  ]);
});

test('a failing source shows no series instead of 0', async () => {
  const s = setup([{ state: 'up' }]);
  let answer: () => readonly Sample<'state'>[] = () => [{ labels: { state: 'up' }, value: 3 }];
  s.gauge.from(() => answer());
  expect(await s.shown()).toEqual([['up', 3]]);
  answer = () => {
    throw new Error('away');
  };
  expect(await s.shown()).toEqual([]);
});
