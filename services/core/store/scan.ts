/**
 * A scan of a list, newest first, for one page of it. The order is an index's, so what a scan reads is bounded by
 * `rows`, however few of them the filter lets pass.
 */
export type ScanRange<Position> = {
  /** Only what is older than this. */
  readonly before: Position | undefined;
  /** Most rows to read. */
  readonly rows: number;
  /** Most rows to answer with. */
  readonly most: number;
};

export type Scanned<Row, Position> = {
  /** What passed the filter. */
  readonly found: Row[];
  /** Rows read; fewer than asked for where the list ends there. */
  readonly scanned: number;
  /** The last row read; undefined where there was none. */
  readonly end: Position | undefined;
};
