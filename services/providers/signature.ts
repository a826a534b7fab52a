import { createHmac, createSecretKey, timingSafeEqual, type BinaryLike } from 'node:crypto';
import { TIMESTAMP_TOLERANCE_MS, type ReceiptVerdict } from './receipt.ts';

/** Compares two texts in constant time. */
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
  // Byte keys are wrapped in a KeyObject: `createHmac` takes longer to detect their type than the wrapping and the HMAC
  // together.
  const prepared = typeof key === 'string' ? key : createSecretKey(key);
  return createHmac(algorithm, prepared).update(text).digest();
}

/**
 * @param at when the vendor signed, by its own clock.
 * @param receivedAt when its call arrived, in milliseconds since the epoch.
 * @param toleranceMs longer for a vendor that retries a call without a new signature.
 */
export function isTimely(at: number, receivedAt: number, toleranceMs = TIMESTAMP_TOLERANCE_MS): boolean {
  return Math.abs(receivedAt - at) <= toleranceMs;
}

export const GENUINE: ReceiptVerdict = { kind: 'genuine' };
/** The verdict for a vendor or an account without signatures. */
export const UNSIGNED: ReceiptVerdict = { kind: 'genuine', isUnsigned: true };
export const MISSING: ReceiptVerdict = { kind: 'forged', reason: 'signature_missing' };
export const MISMATCH: ReceiptVerdict = { kind: 'forged', reason: 'signature_mismatch' };
export const UNTIMELY: ReceiptVerdict = { kind: 'forged', reason: 'timestamp_out_of_tolerance' };
