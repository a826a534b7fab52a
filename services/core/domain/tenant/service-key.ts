import { createHmac, randomBytes, type KeyObject } from 'node:crypto';
import { crc32 } from 'node:zlib';

export const KEY_MODES = ['live', 'test'] as const;
export type KeyMode = (typeof KEY_MODES)[number];

/** `dsp_<mode>_<keyId>_<secret>_<checksum>`: secret scanners can find it, and typing errors are refused before any lookup. */
export type ServiceKey = {
  readonly mode: KeyMode;
  /** Public part: 16 characters of base62. */
  readonly keyId: string;
  /** 43 characters of base62: 256 bits. */
  readonly secret: string;
};

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const KEY_ID_LENGTH = 16;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const PATTERN = /^(dsp_(live|test)_([0-9A-Za-z]{16})_([0-9A-Za-z]{43}))_([0-9A-Za-z]{6})$/;

export function formatServiceKey({ mode, keyId, secret }: ServiceKey): string {
  const payload = `${keyPrefix(mode, keyId)}_${secret}`;
  return `${payload}_${checksum(payload)}`;
}

/** Returns the part of a key that may be shown. */
export function keyPrefix(mode: KeyMode, keyId: string): string {
  return `dsp_${mode}_${keyId}`;
}

/**
 * Parses a key without a query.
 * @returns null for any text that cannot be a service key.
 */
export function parseServiceKey(text: string): ServiceKey | null {
  const match = PATTERN.exec(text);
  if (match === null) return null;
  const [, payload, mode, keyId, secret, sum] = match as unknown as string[];
  // Tests break this (mutant: key-checksum): text that cannot be a key costs no query.
  if (checksum(payload as string) !== sum) return null;
  return { mode: mode as KeyMode, keyId: keyId as string, secret: secret as string };
}

/** Returns the part of a text where a key has its id, whether or not the text is a key. */
export function keyIdOf(text: string): string {
  return text.slice('dsp_live_'.length, 'dsp_live_'.length + KEY_ID_LENGTH);
}

export function newKeyId(): string {
  return base62(randomBytes(12), KEY_ID_LENGTH + 1).slice(-KEY_ID_LENGTH);
}

/** Derives the secret from the key's row id and a nonce, so that it can be shown again from the nonce. */
export function deriveKeySecret(subkey: KeyObject, apiKeyId: string, nonce: Uint8Array): string {
  const digest = createHmac('sha256', subkey).update(`${apiKeyId}|`).update(nonce).digest();
  return base62(digest, SECRET_LENGTH);
}

/** Returns the stored hash of a secret. */
export function hashKeySecret(subkey: KeyObject, secret: string): Buffer {
  return createHmac('sha256', subkey).update(secret).digest();
}

function checksum(payload: string): string {
  // Plain numbers suffice for 32 bits and are faster than BigInt; this runs for every request.
  let rest = crc32(payload);
  let text = '';
  while (text.length < CHECKSUM_LENGTH) {
    text = (ALPHABET[rest % 62] as string) + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}

function base62(bytes: Buffer, length: number): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`);
  let text = '';
  while (text.length < length) {
    text = (ALPHABET[Number(rest % 62n)] as string) + text;
    rest /= 62n;
  }
  return text;
}
