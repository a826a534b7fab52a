import type { ErrorDetail } from '#core/domain/fault/app-error.ts';
import { shortName } from '#core/domain/text/short-name.ts';
import { countNames, repeatedName } from '../http/input/repeated-name.ts';
import { textLines } from '../http/input/text-lines.ts';
import { formatFault, ROW_BYTES_MAX, type SentRow } from './sent-row.ts';

/** Reads a JSON object from each line. */
export function* ndjsonRows(bytes: Buffer): Generator<SentRow, void> {
  for (const { line, text, fault } of textLines(bytes, ROW_BYTES_MAX)) {
    const row = fault === undefined ? parsed(text) : formatFault(fault);
    if ('rule' in row) yield { line, faults: [row] };
    else yield { line, fields: Object.entries(row.sent) };
  }
}

function parsed(text: string): { readonly sent: object } | ErrorDetail {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return formatFault('Must be a JSON object');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { ...formatFault('Must be a JSON object'), rule: 'type' };
  }
  // A row that is not flat has more names, too.
  const repeated = countNames(text) > Object.keys(value).length ? repeatedName(text) : undefined;
  if (repeated === undefined) return { sent: value };
  const field = repeated.map((name) => shortName(String(name))).join('.');
  return { field, rule: 'single', message: 'Must be given once' };
}
