import { AppError, type ErrorDetail } from '#core/domain/fault/app-error.ts';
import { createLineRanges, lineRangesText, type LineRange } from '#core/domain/text/line-ranges.ts';

/** A violated rule in one row. */
export type RowFault = ErrorDetail & { readonly line: number };

/** The faulty rows of an import: the lines of all of them, and details for the first ones. */
export type ImportFaults = {
  readonly add: (line: number, faults: readonly ErrorDetail[]) => void;
  readonly rows: () => number;
  readonly named: () => readonly RowFault[];
  readonly lines: () => readonly LineRange[];
  /** Returns the error for an import that is refused as a whole. */
  readonly error: () => AppError;
};

/** A file can contain any number of faults; this bounds the answer. */
export const NAMED_FAULTS_MAX = 1_000;

export function createImportFaults(): ImportFaults {
  const named: RowFault[] = [];
  const lines = createLineRanges();
  const beyond = createLineRanges();
  let rows = 0;
  return {
    add(line, faults) {
      rows += 1;
      lines.add(line);
      if (named.length + faults.length > NAMED_FAULTS_MAX) beyond.add(line);
      else named.push(...faults.map((fault) => ({ line, ...fault })));
    },
    rows: () => rows,
    named: () => named,
    lines: lines.list,
    error() {
      const unnamed = beyond.list();
      return new AppError('validation_failed', {
        message: `Nothing was imported: ${rows} of the rows ${rows === 1 ? 'is' : 'are'} wrong`,
        details: [
          ...named.map(({ line, field, rule, message }) => ({
            field: `lines.${line}.${field}`,
            rule,
            message,
          })),
          ...(unnamed.length === 0
            ? []
            : [{ field: 'lines', rule: 'more', message: `Wrong are these too: ${lineRangesText(unnamed)}` }]),
        ],
      });
    },
  };
}
