import { expect, test } from 'vitest';
import type { ScanRange } from '#core/store/query/scan.ts';
import { filteredPage, PAGE_ROWS_MAX } from './filtered-page.ts';

/** Returns rows `from` down to 1; every `nth` one passes the filter. */
function list(from: number, nth: number) {
  const scans: ScanRange<number>[] = [];
  const scan = async (asked: ScanRange<number>) => {
    scans.push(asked);
    const first = Math.min(from, (asked.before ?? Infinity) - 1);
    const scanned = Math.min(asked.rows, Math.max(first, 0));
    const rows = Array.from({ length: scanned }, (_, i) => first - i);
    const found = rows.filter((row) => row % nth === 0).slice(0, asked.most);
    return { found, scanned, end: rows.at(-1) };
  };
  return { scans, scan };
}

const page = (
  limit: number,
  before: number | undefined,
  scan: ReturnType<typeof list>['scan'],
  now?: () => number,
) => filteredPage({ limit, before, isFiltered: true, positionOf: (row: number) => row, scan }, now);

test.each([
  [100, 1, 10],
  [100, 7, 3],
  [1_000, 1_001, 5],
  [14, 7, 2],
  [14, 7, 1],
  [0, 1, 5],
  [12_000, 4_000, 50],
])(
  'paging through %i rows, of which every %ith matches, returns each match once, %i per page',
  async (from, nth, limit) => {
    const { scan, scans } = list(from, nth);
    const seen: number[] = [];
    let before: number | undefined;
    do {
      scans.length = 0;
      const { rows, next } = await page(limit, before, scan, () => 0);
      expect(rows.length).toBeLessThanOrEqual(limit);
      expect(scans.reduce((sum, { rows: read }) => sum + read, 0)).toBeLessThanOrEqual(PAGE_ROWS_MAX);
      seen.push(...rows);
      before = next;
    } while (before !== undefined);
    expect(seen).toEqual(
      Array.from({ length: Math.floor(from / nth) }, (_, i) => (Math.floor(from / nth) - i) * nth),
    );
  },
);

test('a page at its row budget is returned short or even empty, with a position to continue', async () => {
  const { scan } = list(20_000, 30_000);
  expect(await page(50, undefined, scan, () => 0)).toEqual({
    rows: [],
    next: 20_001 - PAGE_ROWS_MAX,
    end: 20_001 - PAGE_ROWS_MAX,
  });
});

test('a page past its time budget ends after the current scan', async () => {
  const { scan, scans } = list(20_000, 30_000);
  let time = 0;
  const { rows, next } = await page(50, undefined, scan, () => (time += 60));
  expect([rows, next, scans.length]).toEqual([[], 20_001 - 250 - 1_000, 2]);
});

test('a page of one row finds a match behind 1,199 other rows within two scans', async () => {
  const { scan } = list(2_399, 1_200);
  let time = 0;
  expect(await page(1, undefined, scan, () => (time += 60))).toMatchObject({ rows: [1_200] });
});

test('an unfiltered page reads one row more than it holds', async () => {
  const { scan, scans } = list(100, 1);
  await filteredPage({
    limit: 10,
    before: undefined,
    isFiltered: false,
    positionOf: (row: number) => row,
    scan,
  });
  expect(scans).toEqual([{ before: undefined, rows: 11, most: 11 }]);
});
