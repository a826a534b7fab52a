import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import { namesTag } from '../names-tag.ts';

/** Syntax of `If-Match` (RFC 9110, 13.1.1): `*`, or entity tags with commas between them; elements of the list may be empty. */
export const IF_MATCH =
  /^(?:\*|[\t ,]*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"(?:[\t ]*,[\t ,]*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")*[\t ,]*)$/;

/** Formats a version for the `ETag` header. */
export const etagOf = (version: number): string => `"${version}"`;

/**
 * Checks that a change is based on the current version: that the header names it, alone or in a list. A weak tag counts as the
 * version in it: proxies that compress answers weaken their tags, so a client may know no other, and a version names exactly one
 * state.
 * @param header The request's `If-Match`; null without one, which matches everything.
 * @throws AppError `validation_failed` for an invalid header, `version_mismatch` if it does not name this version.
 */
export function assertMatches(header: string | null, version: number): void {
  if (header === null || header === '*') return;
  if (!IF_MATCH.test(header)) {
    const message = 'Must be versions in double quotes, as ETag has them, with commas between them; or *';
    throw validationFailed({ field: 'If-Match', rule: 'version', message });
  }
  if (!namesTag(header, etagOf(version))) throw new AppError('version_mismatch');
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
