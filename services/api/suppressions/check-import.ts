import { AppError } from '#core/domain/fault/app-error.ts';
import { unknownField, type Warnings } from '#core/domain/fault/warning.ts';
import { abandoned } from '../http/errors.ts';
import type { Pauses } from '../http/admission/pauses.ts';
import type { Upload } from '../http/input/upload.ts';
import { createImportFaults, type ImportFaults } from './import-faults.ts';
import { importRows } from './import-rows.ts';
import { AddSuppression } from './suppression-schema.ts';

/**
 * The upload is parsed twice, once to check all rows and once to store them: parsed rows take ten times their bytes in memory.
 */
export type GivenImport = {
  readonly upload: Upload;
  readonly now: number;
  /** Aborts when the client has gone; the import then gives up its slot. */
  readonly gone: AbortSignal;
};

export type CheckedImport = {
  readonly received: number;
  /** Number of rows whose expiry has passed. */
  readonly expired: number;
  readonly faults: ImportFaults;
};

export const ROWS_MAX = 100_000;
/** Bound on remembered names of unknown fields; it is more than the warnings list. */
const UNKNOWN_MAX = 100;

/** Checks all rows. @throws AppError where the file cannot be parsed into rows or has too many. */
export async function checkImport(
  { upload, now, gone }: GivenImport,
  warnings: Warnings,
  pause: Pauses,
): Promise<CheckedImport> {
  const faults = createImportFaults();
  const unknown = new Set<string>();
  const onUnknown = (name: string): void => {
    if (unknown.size > UNKNOWN_MAX || unknown.has(name)) return;
    unknown.add(name);
    warnings.add(unknownField('', name, Object.keys(AddSuppression.shape)).warning);
  };
  let [received, expired] = [0, 0];
  for (const row of importRows(upload, { now, onUnknown })) {
    received += 1;
    if (received > ROWS_MAX) {
      throw new AppError('payload_too_large', { message: `An import has at most ${ROWS_MAX} rows` });
    }
    if ('faults' in row) faults.add(row.line, row.faults);
    else if (row.isOver) expired += 1;
    const resting = pause();
    if (resting !== undefined) await resting;
    if (gone.aborted) throw abandoned();
  }
  return { received, expired, faults };
}
