/**
 * A scan of a list, newest first, for one page. It follows an index, so `rows` bounds what it reads, however few rows pass the
 * filter.
 */
export type ScanRange<Position> = {
  /** Only rows older than this position. */
  readonly before: Position | undefined;
  /** Maximum number of rows to read. */
  readonly rows: number;
  /** Maximum number of rows to return. */
  readonly most: number;
};

export type Scanned<Row, Position> = {
  /** The rows that passed the filter. */
  readonly found: Row[];
  /** Number of rows read; less than requested if the list ends there. */
  readonly scanned: number;
  /** The last row read; undefined if there was none. */
  readonly end: Position | undefined;
};

/** A row of a list whose positions are numbers, or none where `id` is null, and how far the scan has come. */
export type ScannedRow<Row extends { readonly id: string }> = Omit<Row, 'id'> & {
  readonly id: Row['id'] | null;
  readonly scanned: number;
  readonly endSeq: number;
};

/** Returns what a scan found. @param rows at least one, as a scan that found nothing says how far it came. */
export function scannedOf<Row extends { readonly id: string }>(
  rows: readonly ScannedRow<Row>[],
): Scanned<Row, number> {
  const [first] = rows;
  return {
    found: rows.flatMap((row) => {
      const { scanned: _, endSeq: __, id, ...rest } = row;
      return id === null ? [] : [{ ...rest, id } as unknown as Row];
    }),
    scanned: first?.scanned ?? 0,
    end: first === undefined || first.scanned === 0 ? undefined : first.endSeq,
  };
}
