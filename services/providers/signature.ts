import { createHmac, createSecretKey, timingSafeEqual, type BinaryLike } from 'node:crypto';
import { TIMESTAMP_TOLERANCE_MS, type ReceiptVerdict } from './receipt.ts';

/** Compares in a time that says nothing about where the two differ. */
export function isSame(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}

export function hmac(
  algorithm: 'md5' | 'sha1' | 'sha256' | 'sha512',
  key: string | Uint8Array,
  text: BinaryLike,
  encoding: 'hex' | 'base64' = 'hex',
): string {
  return hmacBytes(algorithm, key, text).toString(encoding);
}

export function hmacBytes(
  algorithm: 'md5' | 'sha1' | 'sha256' | 'sha512',
  key: string | Uint8Array,
  text: BinaryLike,
): Buffer {
  // Bytes are prepared: to find out what they are costs `createHmac` more than this and the HMAC do.
  const prepared = typeof key === 'string' ? key : createSecretKey(key);
  return createHmac(algorithm, prepared).update(text).digest();
}

/**
 * @param at when the vendor says that it signed, and @param receivedAt when its call arrived, in milliseconds since the
 * epoch. @param toleranceMs longer where a vendor that tries again does not sign anew.
 */
export function isTimely(at: number, receivedAt: number, toleranceMs = TIMESTAMP_TOLERANCE_MS): boolean {
  return Math.abs(receivedAt - at) <= toleranceMs;
}

export const GENUINE: ReceiptVerdict = { kind: 'genuine' };
/** Of a vendor, or an account, without signatures. */
export const UNSIGNED: ReceiptVerdict = { kind: 'genuine', isUnsigned: true };
export const MISSING: ReceiptVerdict = { kind: 'forged', reason: 'signature_missing' };
export const MISMATCH: ReceiptVerdict = { kind: 'forged', reason: 'signature_mismatch' };
export const UNTIMELY: ReceiptVerdict = { kind: 'forged', reason: 'timestamp_out_of_tolerance' };
