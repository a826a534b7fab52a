import { AppError, validationFailed, type ErrorDetail } from '#core/domain/fault/app-error.ts';
import { ruleText } from '#core/domain/text/rule-text.ts';
import { shortName } from '#core/domain/text/short-name.ts';
import { unguarded } from '../http/lists/csv.ts';
import { csvRecords } from '../http/input/csv-records.ts';
import { brokenRules, isText } from '../http/input/read-input.ts';
import { countNames, repeatedName } from '../http/input/repeated-name.ts';
import { textLines } from '../http/input/text-lines.ts';
import type { Upload } from '../http/input/upload.ts';
import { checkSuppression, hasExpired, type CheckedSuppression } from './suppression-entry.ts';
import { AddSuppression } from './suppression-schema.ts';

/** A row of an import with the line on which it begins, or its fault. `isOver`: its expiry has passed. */
export type ImportRow = { readonly line: number } & (
  | { readonly entry: CheckedSuppression; readonly isOver: boolean }
  | { readonly faults: readonly ErrorDetail[] }
);

export type ImportRowsOptions = {
  /** Reference time for comparisons; the same for all reads of an import. */
  readonly now: number;
  /** Called with each unknown field name. */
  readonly onUnknown: (name: string) => void;
};

/** Larger than the longest address with every character escaped. */
const ROW_BYTES_MAX = 32 * 1024;
/** Exports have six more columns. */
const COLUMNS_MAX = 100;

const Row = AddSuppression.omit({ idempotencyKey: true });
const FIELDS = ['channel', 'address', 'reason', 'scope', 'expiresAt', 'hashed'] as const;
type Field = (typeof FIELDS)[number];
/** Additional columns of exports. */
const TOLD = ['id', 'source', 'messageId', 'createdAt'];
/** Names in both spellings; null for columns that are skipped. */
const NAMES: ReadonlyMap<string, Field | null> = new Map(
  [...FIELDS.map((name) => [name, name] as const), ...TOLD.map((name) => [name, null] as const)].flatMap(
    ([name, field]) => [
      [name, field],
      [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), field],
    ],
  ),
);

export const NDJSON = 'application/x-ndjson';
export const CSV = 'text/csv';

/**
 * Reads the rows of an import one at a time, so that the caller can pause in between.
 * @throws AppError `validation_failed` when the text cannot be split into rows.
 */
export function importRows({ type, bytes }: Upload, options: ImportRowsOptions): Generator<ImportRow, void> {
  return type === CSV ? csvRows(bytes, options) : ndjsonRows(bytes, options);
}

function* ndjsonRows(bytes: Buffer, options: ImportRowsOptions): Generator<ImportRow, void> {
  for (const { line, text, fault } of textLines(bytes, ROW_BYTES_MAX)) {
    const row = fault === undefined ? parsed(text) : broken(fault);
    if ('rule' in row) yield { line, faults: [row] };
    else yield { line, ...rowOf(Object.entries(row.sent), options) };
  }
}

function parsed(text: string): { readonly sent: object } | ErrorDetail {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return broken('Must be a JSON object');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { ...broken('Must be a JSON object'), rule: 'type' };
  }
  // A row that is not flat has more names, too.
  const repeated = countNames(text) > Object.keys(value).length ? repeatedName(text) : undefined;
  if (repeated === undefined) return { sent: value };
  const field = repeated.map((name) => shortName(String(name))).join('.');
  return { field, rule: 'single', message: 'Must be given once' };
}

function* csvRows(bytes: Buffer, options: ImportRowsOptions): Generator<ImportRow, void> {
  let columns: readonly string[] | undefined;
  for (const { line, cells, fault, isEnd } of csvRecords(bytes, ROW_BYTES_MAX)) {
    // The extent of the damage is unknown: later rows could look valid by accident.
    if (isEnd === true) throw validationFailed({ ...broken(fault ?? ''), field: `lines.${line}` });
    if (columns === undefined) {
      columns = columnsOf(cells, line, fault, options);
      continue;
    }
    if (fault !== undefined) yield { line, faults: [broken(fault)] };
    else if (cells.length !== columns.length) {
      const message = `Must have ${columns.length} cells, as the first line has`;
      yield { line, faults: [broken(message)] };
    } else yield { line, ...rowOf(pairsOf(columns, cells), options) };
  }
}

/** @throws AppError */
function columnsOf(
  cells: readonly string[],
  line: number,
  fault: string | undefined,
  { onUnknown }: ImportRowsOptions,
): readonly string[] {
  const refuse = (message: string): AppError =>
    validationFailed({ ...broken(message), field: `lines.${line}` });
  if (fault !== undefined) throw refuse(fault);
  if (cells.length > COLUMNS_MAX) throw refuse(`Must have at most ${COLUMNS_MAX} columns`);
  const names = cells.map((name) => name.trim());
  const fields = names.map((name) => NAMES.get(name));
  const known = fields.filter((field) => field !== undefined && field !== null);
  if (!known.includes('channel') || !known.includes('address')) {
    throw refuse('Must name the columns, separated by commas: channel and address among them');
  }
  if (new Set(known).size < known.length) throw refuse('Must name each column once');
  for (const [i, field] of fields.entries()) if (field === undefined) onUnknown(names[i] ?? '');
  return names.map((name) => (NAMES.get(name) == null ? '' : name));
}

/** An empty cell counts as absent; values formatted for people are normalized. */
function pairsOf(columns: readonly string[], cells: readonly string[]): [string, unknown][] {
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

type Read =
  | { readonly entry: CheckedSuppression; readonly isOver: boolean }
  | { readonly faults: readonly ErrorDetail[] };

function rowOf(pairs: readonly (readonly [string, unknown])[], { now, onUnknown }: ImportRowsOptions): Read {
  const sent: Partial<Record<Field, unknown>> = {};
  for (const [name, value] of pairs) {
    const field = NAMES.get(name);
    if (field === undefined) onUnknown(name);
    if (field === undefined || field === null || value === null) continue;
    if (Object.hasOwn(sent, field) && sent[field] !== value) {
      const message = `Must not differ between ${field} and its other spelling`;
      return { faults: [{ field, rule: 'conflict', message }] };
    }
    sent[field] = value;
  }
  const { address } = sent;
  if (typeof address === 'string' && !isText(address)) {
    return {
      faults: [{ field: 'address', rule: 'characters', message: 'Must be Unicode text without NUL' }],
    };
  }
  if (address === undefined && sent.hashed === true) {
    const message = 'Must be there: nobody can make an entry of which only the hash was kept';
    return { faults: [{ field: 'address', rule: 'required', message }] };
  }
  const { success, data, error } = Row.safeParse(sent, { error: ruleText });
  if (!success) return { faults: brokenRules(error.issues, sent) };
  const checked = checkSuppression(data);
  return 'rule' in checked ? { faults: [checked] } : { entry: checked, isOver: hasExpired(checked, now) };
}

function broken(message: string): ErrorDetail {
  return { field: 'row', rule: 'format', message };
}
