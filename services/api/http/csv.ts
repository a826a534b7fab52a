/** What a cell may hold; null and undefined are empty. */
export type CsvCell = string | number | boolean | null | undefined;

/**
 * Rows as text/csv (RFC 4180), each of them with its line break. A text that a spreadsheet would run as a formula gets an
 * apostrophe before it: what stands in a cell may be of somebody else's making than who opens the file.
 */
export function toCsv(rows: readonly (readonly CsvCell[])[]): string {
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(value: CsvCell): string {
  if (typeof value !== 'string') return value == null ? '' : String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
