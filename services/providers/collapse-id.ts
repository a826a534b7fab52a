import { createHash } from 'node:crypto';

/** What Apple takes as a collapse id: at most 64 bytes. A space at either end of a header's value would be lost. */
const COLLAPSE_ID = /^[\x21-\x7e](?:[\x20-\x7e]{0,62}[\x21-\x7e])?$/;

/** Returns the key, or its hash if Apple does not take the key as a header: equal keys have equal hashes. */
export function collapseId(key: string): string {
  return COLLAPSE_ID.test(key) ? key : createHash('sha256').update(key).digest('base64url');
}
