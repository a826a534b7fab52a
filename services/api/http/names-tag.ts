import { sameTag } from './same-tag.ts';

/** An opaque tag may contain commas and asterisks. */
const ELEMENT = /(?:W\/)?"[^"]*"|\*/g;

/**
 * Returns whether a list of entity tags names this one, by the weak comparison (RFC 9110, 8.8.3.2). `*` names every tag.
 * @param header `If-Match` or `If-None-Match`; undefined without one, which names none.
 */
export function namesTag(header: string | undefined, etag: string): boolean {
  const tags = header?.match(ELEMENT) ?? [];
  return tags.some((tag) => tag === '*' || sameTag(tag, etag));
}
