import { expect, test } from 'vitest';
import { delaysFrom, latenciesOf } from './latency.ts';

const sample = (n: number, enqueuedAt: number) => ({ n, key: 0, meantAt: 0, enqueuedAt });

test('the percentiles of several phases are those of all their delays together', () => {
  const phases = [
    delaysFrom(
      ({ enqueuedAt }) => enqueuedAt,
      [sample(1, 0), sample(2, 10)],
      [
        [1, 90],
        [2, 20],
      ],
    ),
    delaysFrom(({ enqueuedAt }) => enqueuedAt, [sample(1, 5), sample(3, 5)], [[1, 10]]),
  ];
  expect(latenciesOf(phases.flat())).toEqual({ p50Ms: 10, p99Ms: 90, p999Ms: 90 });
});
