import { expect, test } from 'vitest';
import type { GrowthPoint } from '../measure/growth.ts';
import { growthMedian, growthRatio } from './growth-figures.ts';
import { growthLines } from './growth-lines.ts';

// A file holds NaN as null.
const point = (...p99s: (number | null)[]): GrowthPoint => ({
  database: 'bench',
  messages: 1_000,
  tenants: 10,
  isFilled: true,
  visits: p99s.map((listP99Ms) => ({
    listP99Ms: listP99Ms as number,
    readsShed: listP99Ms === null ? 9 : 0,
  })),
});

test('a visit without a p99 is ignored, and most visits without one give NaN', () => {
  expect(growthMedian(point(10, 30, 20), 'listP99Ms')).toBe(20);
  expect(growthMedian(point(10, null, 30), 'listP99Ms')).toBe(20);
  expect(growthMedian(point(10, null, null), 'listP99Ms')).toBeNaN();
  expect(growthRatio([point(10, 10, 10), point(20, null, 30)], 'listP99Ms').median).toBe(2.5);
  expect(growthRatio([point(10, null, 10), point(20, 20, null)], 'listP99Ms').median).toBeNaN();
});

test('refused reads are shown above the table', () => {
  expect(growthLines([point(10, null, 10)], 'messages')[0]).toContain('Reads answered with 503: 9;');
  expect(growthLines([point(10, 10, 10)], 'messages')[0]).toBe('p99 in milliseconds.');
});

test('the p99 and the blocks of the first read are shown in a second table', () => {
  const visits = [{ listP99Ms: 10, listFirstP99Ms: 40, listBlocks: 340, listBlocksRead: 120 }];
  const lines = growthLines([{ ...point(), visits }], 'messages').join('\n');
  expect(lines).toMatch(
    /1,000 .*\| +10\.0 \|[^]*at the first look[^]*1,000 .*\| +40\.0 \|.*\| +340 \|.*\| +120 \|/,
  );
});
