import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import { namesTag } from '../names-tag.ts';
import { sameTag } from '../same-tag.ts';

/** Syntax of a version from a client: `"3"`; `*` matches any. */
export const IF_MATCH = /^(?:\*|(?:W\/)?"\d{1,10}")$/;

/** Formats a version for the `ETag` header. */
export const etagOf = (version: number): string => `"${version}"`;

/**
 * Checks that a change is based on the current version. A weak tag counts as the version in it: proxies that compress answers weaken
 * their tags, so a client may know no other, and a version names exactly one state.
 * @param header The request's `If-Match`; null without one, which matches everything.
 * @throws AppError `validation_failed` for an invalid header, `version_mismatch` for another version.
 */
export function assertMatches(header: string | null, version: number): void {
  if (header === null || header === '*') return;
  if (!IF_MATCH.test(header)) {
    const message = 'Must be a version in double quotes, as ETag has it';
    throw validationFailed({ field: 'If-Match', rule: 'version', message });
  }
  if (!sameTag(header, etagOf(version))) throw new AppError('version_mismatch');
}

/**
 * Checks that a change is not based on the current version (RFC 9110, 13.1.2). `*` asks that nobody has set the resource yet, which
 * is so at version 0: its defaults can be read, but a client that sends `*` wants to overwrite no one's choice.
 * @param header The request's `If-None-Match`; null without one, which matches nothing.
 * @throws AppError `version_mismatch`
 */
export function assertNoneMatches(header: string | null, version: number): void {
  if (header === null || (header === '*' && version === 0)) return;
  if (namesTag(header, etagOf(version))) throw new AppError('version_mismatch');
}
