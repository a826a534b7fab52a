import { AppError, validationFailed } from '#core/domain/app-error.ts';

/** What a client writes of a version: `"3"`; `*` is any. */
export const IF_MATCH = /^(?:\*|"\d{1,10}")$/;

/** A version as the header `ETag` has it. */
export const etagOf = (version: number): string => `"${version}"`;

/**
 * Checks that a change is meant for what is there.
 * @param header The request's `If-Match`; null without one, and then everything matches.
 * @throws AppError `validation_failed` for a header that is no version, `version_mismatch` for another one.
 */
export function assertMatches(header: string | null, version: number): void {
  if (header === null || header === '*') return;
  if (!IF_MATCH.test(header)) {
    const message = 'Must be a version in double quotes, as ETag has it';
    throw validationFailed({ field: 'If-Match', rule: 'version', message });
  }
  if (header !== etagOf(version)) throw new AppError('version_mismatch');
}
