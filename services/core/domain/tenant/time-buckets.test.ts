import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY_MS } from '../text/duration.ts';
import { LAST_TIME_BUCKET, QUANTILE_ERROR, quantileOf, timeBucket } from './time-buckets.ts';

function countsOf(times: readonly number[]): number[] {
  const counts: number[] = [];
  for (const ms of times) {
    const bucket = timeBucket(ms);
    while (counts.length <= bucket) counts.push(0);
    counts[bucket] = (counts[bucket] ?? 0) + 1;
  }
  return counts;
}

/** Returns the first of the sorted times that reaches the share. */
function trueQuantile(times: readonly number[], share: number): number {
  return times.toSorted((a, b) => a - b)[Math.ceil(share * times.length) - 1] ?? 0;
}

const time = fc.oneof(fc.nat({ max: 50 }), fc.nat({ max: 20_000 }), fc.nat({ max: 10 * DAY_MS }));
const some = fc.array(time, { minLength: 1, maxLength: 200 });
const share = fc.constantFrom(0.5, 0.95, 0.01, 1);

test('a quantile differs from the true one by at most QUANTILE_ERROR', () => {
  fc.assert(
    fc.property(some, share, (times, part) => {
      const [found, wanted] = [quantileOf(countsOf(times), part) ?? 0, trueQuantile(times, part)];
      expect(Math.abs(found - wanted)).toBeLessThanOrEqual(wanted * QUANTILE_ERROR + 0.5);
    }),
  );
});

test('summed counts have the quantiles of all times together', () => {
  fc.assert(
    fc.property(some, some, share, (mine, yours, part) => {
      const [a, b] = [countsOf(mine), countsOf(yours)];
      const sum = Array.from({ length: Math.max(a.length, b.length) }, (_, i) => (a[i] ?? 0) + (b[i] ?? 0));
      expect(quantileOf(sum, part)).toBe(quantileOf(countsOf([...mine, ...yours]), part));
    }),
  );
});

test('a longer time is never in a lower bucket, and none is beyond the last bucket', () => {
  fc.assert(
    fc.property(
      fc.double({ min: -10, max: 1e15, noNaN: true }),
      fc.double({ min: 0, max: 1e15, noNaN: true }),
      (ms, more) => {
        const [low, high] = [timeBucket(ms), timeBucket(ms + more)];
        expect(low).toBeLessThanOrEqual(high);
        expect(low).toBeGreaterThanOrEqual(0);
        expect(high).toBeLessThanOrEqual(LAST_TIME_BUCKET);
      },
    ),
  );
});

test('the last bucket stands for its beginning, because it has no end', () => {
  const last = countsOf([Number.MAX_SAFE_INTEGER]);
  expect(last).toHaveLength(LAST_TIME_BUCKET + 1);
  expect(quantileOf(last, 0.5)).toBe(Math.round(2 ** 29.75));
});

test('empty counts have no quantile', () => {
  expect(quantileOf([], 0.5)).toBeNull();
  expect(quantileOf([0, 0], 0.95)).toBeNull();
});
