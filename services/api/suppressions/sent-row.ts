import type { ErrorDetail } from '#core/domain/fault/app-error.ts';

export type SentFields = readonly (readonly [name: string, value: unknown])[];

/** A row of an import as it was sent, with the line on which it begins, or the faults for which it cannot be read. */
export type SentRow = { readonly line: number } & (
  | { readonly fields: SentFields }
  | { readonly faults: readonly ErrorDetail[] }
);

/** Larger than the longest address with every character escaped. */
export const ROW_BYTES_MAX = 32 * 1024;

export function formatFault(message: string): ErrorDetail {
  return { field: 'row', rule: 'format', message };
}
