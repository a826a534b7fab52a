/**
 * Returns a well-formed text without the memory of the longer text that it was cut from, which V8 keeps with a part of it. For
 * parts that are kept longer than the whole.
 */
export function flatCopy(text: string): string {
  return Buffer.from(text).toString();
}
