import type { ScanRange, Scanned } from '#core/store/scan.ts';

/** What one page may cost: a filter that lets little pass would otherwise have a whole history read. */
export const PAGE_ROWS_MAX = 5_000;
const PAGE_MS_MAX = 100;
/** Each scan of a page is larger than the one before: most pages are full after the first. */
const GROWTH = 4;

export type FilteredPage<Row, Position> = {
  readonly rows: Row[];
  /** Where the next page goes on; undefined on the last one. */
  readonly next: Position | undefined;
  /** How far was looked; undefined where there was nothing. */
  readonly end: Position | undefined;
};

/**
 * One page of a list, of at most `limit` rows, and fewer or none where its share of reading is used up before.
 * @param isFiltered False where nearly every row that is read passes.
 * @param now Milliseconds of a clock that never goes back.
 */
export async function filteredPage<Row, Position>(
  options: {
    readonly limit: number;
    readonly before: Position | undefined;
    readonly isFiltered: boolean;
    readonly positionOf: (row: Row) => Position;
    readonly scan: (range: ScanRange<Position>) => Promise<Scanned<Row, Position>>;
  },
  now: () => number = () => performance.now(),
): Promise<FilteredPage<Row, Position>> {
  const { limit, isFiltered, positionOf, scan } = options;
  const until = now() + PAGE_MS_MAX;
  const rows: Row[] = [];
  let { before } = options;
  let left = PAGE_ROWS_MAX;
  let next = isFiltered ? 2 * (limit + 1) : limit + 1;
  for (;;) {
    const asked = Math.min(next, left);
    const { found, scanned, end } = await scan({ before, rows: asked, most: limit + 1 - rows.length });
    rows.push(...found);
    // One more than the page holds shows that it is not the last.
    if (rows.length > limit) {
      const last = positionOf(rows[limit - 1] as Row);
      return { rows: rows.slice(0, limit), next: last, end: last };
    }
    if (end !== undefined) before = end;
    if (scanned < asked) return { rows, next: undefined, end: before };
    left -= scanned;
    next *= GROWTH;
    if (left <= 0 || now() >= until) return { rows, next: before, end: before };
  }
}
