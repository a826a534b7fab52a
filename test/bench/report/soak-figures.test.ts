import { expect, test } from 'vitest';
import type { Soak } from '../measure/soak.ts';
import { sampleResult } from './sample-result.ts';
import { soakFigures } from './soak-figures.ts';
import { soakLines } from './soak-lines.ts';

const sample = (): Soak => sampleResult(1).soak as Soak;

test('the last ten minutes are compared with the first, and memory of the last third with the second', () => {
  const { throughput, deliverP99, sustained, memory } = soakFigures(sample());
  expect(throughput).toBe(1);
  expect(deliverP99).toBeCloseTo(30.045 / 30.545);
  expect(sustained).toBeCloseTo(0.975);
  expect(memory).toEqual({ api: 1, worker: expect.closeTo(149.5 / 129.5), postgres: 1 });
});

test('an unfinished soak has no ratios, and its progress is shown', () => {
  const { sustainedAfter: _, slices, ...begun } = sample();
  const soak: Soak = { ...begun, slices: slices.slice(0, 20) };
  const { throughput, deliverP99, sustained, memory } = soakFigures(soak);
  expect([throughput, deliverP99, sustained, ...Object.values(memory)].every(Number.isNaN)).toBe(true);
  const text = soakLines(soak).join('\n');
  expect(text).toContain('20 of 60 parts of 60 s at 2800 messages a second');
  expect(text).not.toMatch(/NaN|undefined|Infinity/);
});

test('memory is compared among the slices after the last restart', () => {
  const soak = sample();
  const slices = soak.slices.map((slice, i) => (i < 30 ? slice : { ...slice, start: 2 }));
  // Medians of the second and the last ten of thirty slices, of the worker after its restart.
  expect(soakFigures({ ...soak, starts: 2, slices }).memory['worker']).toBeCloseTo(154.5 / 144.5);
});

test('a soak read from a file gives the same lines as a fresh one', () => {
  const soak = JSON.parse(JSON.stringify(sample())) as Soak;
  expect(soakLines(soak)).toEqual(soakLines(sample()));
});
