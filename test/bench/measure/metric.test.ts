import { expect, test } from 'vitest';
import { sumOfSeries } from './metric.ts';

test('all series of a metric are summed, without those of metrics with a longer name', () => {
  const text = [
    '# HELP calls_total Calls.',
    'calls_total{op="login",code="200"} 2',
    'calls_total{op="decrypt",code="200"} 50',
    'calls_total_seconds 7',
    'waiting 3',
  ].join('\n');
  expect(sumOfSeries(text, 'calls_total')).toBe(52);
  expect(sumOfSeries(text, 'waiting')).toBe(3);
  expect(sumOfSeries(text, 'absent')).toBe(0);
});
