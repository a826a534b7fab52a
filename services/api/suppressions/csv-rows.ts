import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import { unguarded } from '../http/lists/csv.ts';
import { csvRecords, type CsvRecord } from '../http/input/csv-records.ts';
import { IMPORT_FIELDS } from './import-fields.ts';
import { formatFault, ROW_BYTES_MAX, type SentRow } from './sent-row.ts';

/** Exports have six more columns. */
const COLUMNS_MAX = 100;

/**
 * Reads the rows below the line that names the columns.
 * @param onUnknown called with each unknown name.
 * @throws AppError `validation_failed` when the text cannot be split into rows.
 */
export function* csvRows(bytes: Buffer, onUnknown: (name: string) => void): Generator<SentRow, void> {
  let columns: readonly string[] | undefined;
  for (const record of csvRecords(bytes, ROW_BYTES_MAX)) {
    const { line, cells, fault } = record;
    // The extent of the damage is unknown: later rows could look valid by accident.
    if (record.isEnd === true)
      throw validationFailed({ ...formatFault(fault ?? ''), field: `lines.${line}` });
    if (columns === undefined) {
      columns = columnsOf(record, onUnknown);
      continue;
    }
    if (fault !== undefined) yield { line, faults: [formatFault(fault)] };
    else if (cells.length !== columns.length) {
      const message = `Must have ${columns.length} cells, as the first line has`;
      yield { line, faults: [formatFault(message)] };
    } else yield { line, fields: fieldsOf(columns, cells) };
  }
}

/** Returns the names of the columns, empty for those that are ignored. @throws AppError `validation_failed` */
function columnsOf({ cells, line, fault }: CsvRecord, onUnknown: (name: string) => void): readonly string[] {
  const refuse = (message: string): AppError =>
    validationFailed({ ...formatFault(message), field: `lines.${line}` });
  if (fault !== undefined) throw refuse(fault);
  if (cells.length > COLUMNS_MAX) throw refuse(`Must have at most ${COLUMNS_MAX} columns`);
  const names = cells.map((name) => name.trim());
  const fields = names.map((name) => IMPORT_FIELDS.get(name));
  const known = fields.filter((field) => field !== undefined && field !== null);
  if (!known.includes('channel') || !known.includes('address')) {
    throw refuse('Must name the columns, separated by commas: channel and address among them');
  }
  if (new Set(known).size < known.length) throw refuse('Must name each column once');
  for (const [i, field] of fields.entries()) if (field === undefined) onUnknown(names[i] ?? '');
  return names.map((name) => (IMPORT_FIELDS.get(name) == null ? '' : name));
}

/** An empty cell counts as absent; values formatted for people are normalized. */
function fieldsOf(columns: readonly string[], cells: readonly string[]): [string, unknown][] {
  return columns.flatMap((name, i): [string, unknown][] => {
    const cell = cells[i] ?? '';
    if (name === '' || cell === '') return [];
    if (name === 'hashed') {
      const word = cell.toLowerCase();
      return [[name, word === 'true' ? true : word === 'false' ? false : cell]];
    }
    return [[name, name === 'address' ? unguarded(cell) : cell]];
  });
}
