/** Values of a cell; null and undefined become an empty cell. */
export type CsvCell = string | number | boolean | null | undefined;

/** Text that a spreadsheet would run as a formula, full-width signs included, also with apostrophes in front. */
const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/;
/** A spreadsheet reads this as a number and never as a formula. */
const PHONE_NUMBER = /^\+\d{1,15}$/;

/**
 * Formats rows as text/csv (RFC 4180), each with its line break. A text that a spreadsheet would run as a formula is
 * prefixed with an apostrophe: the author of a cell may not be the person who opens the file. An E.164 number is unchanged.
 * `unguarded` reverses this.
 */
export function toCsv(rows: readonly (readonly CsvCell[])[]): string {
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(value: CsvCell): string {
  if (typeof value !== 'string') return value == null ? '' : String(value);
  const text = FORMULA.test(value) && !PHONE_NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Removes the apostrophe that prevents a spreadsheet from running the text of a cell. */
export function unguarded(text: string): string {
  return text.startsWith("'") && FORMULA.test(text) ? text.slice(1) : text;
}
