import type { Spread } from '../measure/percentile.ts';

/** Shows three significant digits; a dash for an unknown value. */
export function show(value: number, unit = ''): string {
  if (Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.01 || size === 0 ? 3 : 5;
  const text = size >= 10_000 ? Math.round(value).toLocaleString('en') : value.toFixed(digits);
  return `${text} ${unit}`.trim();
}

/** Shows the median and the quartiles of the rounds. */
export function showSpread({ median, low, high }: Spread, unit = ''): string {
  if (Number.isNaN(median)) return '–';
  return low === high ? show(median, unit) : `${show(median, unit)} (${show(low)} to ${show(high)})`;
}

/** Lays out a table that is also readable as plain text: the first column aligned to the left, the others to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((cell, i) => Math.max(3, cell.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join(' | ')} |`;
  const rule = widths.map((width, i) => (i === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(head), line(rule), ...rows.map(line)];
}
