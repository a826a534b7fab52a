import { readFileSync } from 'node:fs';

/**
 * Returns a reader of a file that may be replaced while the process runs, such as a renewed certificate. Where it cannot be read,
 * the last content is returned: it may still be right, and the connection fails if it is not.
 * @throws if the file cannot be read now.
 */
export function renewedFile(file: string): () => Buffer {
  let last = readFileSync(file);
  return () => {
    try {
      last = readFileSync(file);
    } catch {
      // The callers are drivers, which could not handle the error.
    }
    return last;
  };
}
