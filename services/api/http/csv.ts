/** What a cell may hold; null and undefined are empty. */
export type CsvCell = string | number | boolean | null | undefined;

/** What a spreadsheet would run as a formula, some of them in full width too, and what begins with apostrophes before such. */
const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/;
/** It makes a number of it, and nothing else. */
const PHONE_NUMBER = /^\+\d{1,15}$/;

/**
 * Rows as text/csv (RFC 4180), each of them with its line break. A text that a spreadsheet would run as a formula gets an
 * apostrophe before it: what stands in a cell may be of somebody else's making than who opens the file. A number in E.164
 * stays as it is. `unguarded` reads such a text again.
 */
export function toCsv(rows: readonly (readonly CsvCell[])[]): string {
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(value: CsvCell): string {
  if (typeof value !== 'string') return value == null ? '' : String(value);
  const text = FORMULA.test(value) && !PHONE_NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The text of a cell without the apostrophe that keeps a spreadsheet from running it. */
export function unguarded(text: string): string {
  return text.startsWith("'") && FORMULA.test(text) ? text.slice(1) : text;
}
