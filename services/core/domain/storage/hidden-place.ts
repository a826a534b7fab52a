// Shared by the ids that hide a place: each looks like a random UUIDv4.

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/**
 * The two variant bits, the same in every UUIDv4, in the word that begins with them, and a mask of the thirty bits after them.
 */
export const VARIANT = 0x8000_0000;
export const AFTER_VARIANT = 0x3fff_ffff;

/** Returns the 16 bytes of a lower-case UUIDv4; undefined for any other text. */
export function bytesOfUuidV4(text: string): Buffer | undefined {
  return UUID_V4.test(text) ? Buffer.from(text.replaceAll('-', ''), 'hex') : undefined;
}

/** Whether `n` is an integer from 0 to `end` - 1. */
export function isBelow(n: number, end: number): boolean {
  return Number.isSafeInteger(n) && n >= 0 && n < end;
}
