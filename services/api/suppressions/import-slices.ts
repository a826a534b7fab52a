import type { LineRange } from '#core/domain/text/line-ranges.ts';
import type { Pauses } from '../http/admission/pauses.ts';
import type { ImportRow } from './import-rows.ts';
import type { CheckedSuppression } from './suppression-entry.ts';

/** Entries that are stored in one transaction, with the lines from the first to the last of them. */
export type ImportSlice = { readonly entries: readonly CheckedSuppression[]; readonly lines: LineRange };

/** Rows of one transaction, for whose locks others may have to wait. */
export const SLICE_ROWS = 1_000;

/** Splits the valid rows whose expiry has not passed into slices. It pauses between rows. */
export async function* importSlices(
  rows: Iterable<ImportRow>,
  pause: Pauses,
): AsyncGenerator<ImportSlice, void> {
  let entries: CheckedSuppression[] = [];
  let lines: LineRange | undefined;
  for (const row of rows) {
    if ('faults' in row || row.isOver) continue;
    entries.push(row.entry);
    lines = { from: lines?.from ?? row.line, to: row.line };
    if (entries.length === SLICE_ROWS) {
      yield { entries, lines };
      entries = [];
      lines = undefined;
    }
    const resting = pause();
    if (resting !== undefined) await resting;
  }
  if (lines !== undefined) yield { entries, lines };
}
