import type { MonotonicClock } from '#core/domain/clock.ts';
import type { ScanRange, Scanned } from '#core/store/query/scan.ts';

/** Maximum rows read for one page: otherwise a selective filter would read the whole history. */
export const PAGE_ROWS_MAX = 5_000;
const PAGE_MS_MAX = 100;
/** Each scan of a page reads more rows than the previous one; most pages are full after the first scan. */
const GROWTH = 4;
/** Rows of the first scan behind a filter: a few scans may use up the time for a page, however few rows each of them reads. */
const FILTERED_ROWS_MIN = 250;

export type FilteredPage<Row, Position> = {
  readonly rows: Row[];
  /** The position of the next page; undefined on the last page. */
  readonly next: Position | undefined;
  /** The position up to which the list was read; undefined when there was nothing to read. */
  readonly end: Position | undefined;
};

/**
 * Returns one page of at most `limit` rows; fewer, or none, when the read budget is used up first.
 * @param isFiltered False when nearly every row passes.
 */
export async function filteredPage<Row, Position>(
  options: {
    readonly limit: number;
    readonly before: Position | undefined;
    readonly isFiltered: boolean;
    readonly positionOf: (row: Row) => Position;
    readonly scan: (range: ScanRange<Position>) => Promise<Scanned<Row, Position>>;
  },
  monotonicMs: MonotonicClock = () => performance.now(),
): Promise<FilteredPage<Row, Position>> {
  const { limit, isFiltered, positionOf, scan } = options;
  const until = monotonicMs() + PAGE_MS_MAX;
  const rows: Row[] = [];
  let { before } = options;
  let left = PAGE_ROWS_MAX;
  let next = isFiltered ? Math.max(2 * (limit + 1), FILTERED_ROWS_MIN) : limit + 1;
  for (;;) {
    const asked = Math.min(next, left);
    const { found, scanned, end } = await scan({ before, rows: asked, most: limit + 1 - rows.length });
    rows.push(...found);
    // One row more than the page holds proves that another page follows.
    if (rows.length > limit) {
      const last = positionOf(rows[limit - 1] as Row);
      return { rows: rows.slice(0, limit), next: last, end: last };
    }
    if (end !== undefined) before = end;
    if (scanned < asked) return { rows, next: undefined, end: before };
    left -= scanned;
    next *= GROWTH;
    if (left <= 0 || monotonicMs() >= until) return { rows, next: before, end: before };
  }
}
