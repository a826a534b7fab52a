import type { ErrorDetail } from '#core/domain/fault/app-error.ts';
import { ruleText } from '#core/domain/text/rule-text.ts';
import { brokenRules, isText } from '../http/input/read-input.ts';
import type { Upload } from '../http/input/upload.ts';
import { checkSuppression, hasExpired, type CheckedSuppression } from './suppression-entry.ts';
import { AddSuppression } from './suppression-schema.ts';
import { csvRows } from './csv-rows.ts';
import { IMPORT_FIELDS, type ImportField } from './import-fields.ts';
import { ndjsonRows } from './ndjson-rows.ts';
import type { SentFields } from './sent-row.ts';

type CheckedRow =
  /** `isOver`: its expiry has passed. */
  | { readonly entry: CheckedSuppression; readonly isOver: boolean }
  | { readonly faults: readonly ErrorDetail[] };

/** A row of an import with the line on which it begins. */
export type ImportRow = { readonly line: number } & CheckedRow;

export type ImportRowsOptions = {
  /** Reference time for comparisons; the same for all reads of an import. */
  readonly now: number;
  /** Called with each unknown field name. */
  readonly onUnknown: (name: string) => void;
};

const Row = AddSuppression.omit({ idempotencyKey: true });

export const NDJSON = 'application/x-ndjson';
export const CSV = 'text/csv';

/**
 * Reads the rows of an import one at a time, so that the caller can pause in between.
 * @throws AppError `validation_failed` when the text cannot be split into rows.
 */
export function* importRows({ type, bytes }: Upload, options: ImportRowsOptions): Generator<ImportRow, void> {
  const rows = type === CSV ? csvRows(bytes, options.onUnknown) : ndjsonRows(bytes);
  for (const row of rows)
    yield 'faults' in row ? row : { line: row.line, ...readFields(row.fields, options) };
}

function readFields(fields: SentFields, { now, onUnknown }: ImportRowsOptions): CheckedRow {
  const sent: Partial<Record<ImportField, unknown>> = {};
  for (const [name, value] of fields) {
    const field = IMPORT_FIELDS.get(name);
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
