/** Consecutive lines, both ends included. */
export type LineRange = { readonly from: number; readonly to: number };

/** Line numbers, merged into as few ranges as possible. */
export type LineRanges = {
  /**
   * Adds a line.
   * @param line greater than all lines before.
   */
  readonly add: (line: number) => void;
  readonly list: () => readonly LineRange[];
};

export function createLineRanges(): LineRanges {
  const ranges: { from: number; to: number }[] = [];
  return {
    add(line) {
      const last = ranges.at(-1);
      if (last !== undefined && last.to + 1 === line) last.to = line;
      else ranges.push({ from: line, to: line });
    },
    list: () => ranges,
  };
}

/** Formats the ranges for people: `2-5, 9`. */
export function lineRangesText(ranges: readonly LineRange[]): string {
  return ranges.map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`)).join(', ');
}
