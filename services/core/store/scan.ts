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
