import { sameTag } from './same-tag.ts';

/**
 * Returns whether an `If-None-Match` names this entity tag, by the weak comparison (RFC 9110, 13.1.2). `*` names every tag.
 * @param header undefined without one, which names none.
 */
export function namesTag(header: string | undefined, etag: string): boolean {
  const tags = header === undefined ? [] : header.split(',').map((tag) => tag.trim());
  return tags.some((tag) => tag === '*' || (tag !== '' && sameTag(tag, etag)));
}
