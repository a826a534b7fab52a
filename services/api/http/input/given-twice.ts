import type { IncomingMessage } from 'node:http';

/**
 * Returns whether a header was sent more than once. Node joins some duplicates and keeps only the first of others.
 * @param name In lower case.
 */
export function isGivenTwice({ rawHeaders }: IncomingMessage, name: string): boolean {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const given = rawHeaders[i] as string;
    if (given.length === name.length && given.toLowerCase() === name) count += 1;
  }
  return count > 1;
}
