import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';
import { DAY_MS } from '../text/duration.ts';
import type { Secret } from '../storage/secret.ts';

// The unsubscribe link outlives its message: the token contains all facts, encrypted, so that nobody can read an address from it
// or forge one, and nothing is stored for mails whose recipients never unsubscribe.

export type UnsubscribeKey = { readonly seal: KeyObject; readonly nonce: KeyObject };

/** The contents of a token. */
export type Unsubscribing = {
  readonly tenantId: string;
  readonly messageId: string;
  /** Normal form of the recipient. */
  readonly address: string;
  /** When the message was accepted, in milliseconds since the epoch; the token contains whole days. */
  readonly issuedAt: number;
};

/** How long a link is valid: thirteen months, counted with the longest ones. */
export const UNSUBSCRIBE_DAYS = 397;
const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const UUID_BYTES = 16;
const FIXED_BYTES = 2 * UUID_BYTES + 4;
/** Version, nonce, content with an address of at least one byte, and tag. */
const BYTES_MIN = 1 + NONCE_BYTES + FIXED_BYTES + 1 + TAG_BYTES;
/**
 * In characters. A mail address has up to 320 bytes (RFC 5321, section 4.5.3.1), and its token 514; but a recipient that is not in
 * ASCII may have more. `normalAddress` returns at most 640 UTF-16 code units, so 1,920 bytes, whose token has 2,647.
 */
export const UNSUBSCRIBE_TOKEN_MAX = 2_688;

/**
 * Derives the keys.
 * @param pepper shared by api and worker.
 */
export function unsubscribeKey(pepper: Secret): UnsubscribeKey {
  const derive = (purpose: string): KeyObject =>
    createSecretKey(new Uint8Array(hkdfSync('sha256', pepper.reveal(), '', `despatch:v1:${purpose}`, 32)));
  return { seal: derive('unsubscribe-seal'), nonce: derive('unsubscribe-nonce') };
}

/**
 * Returns the token of a message; always the same. The nonce is an HMAC of the encrypted content, so that no two contents share a
 * nonce (AES-GCM, NIST SP 800-38D, section 8.2.1).
 */
export function unsubscribeToken(
  key: UnsubscribeKey,
  { tenantId, messageId, address, issuedAt }: Unsubscribing,
): string {
  const fixed = Buffer.alloc(FIXED_BYTES);
  uuidBytes(tenantId).copy(fixed, 0);
  uuidBytes(messageId).copy(fixed, UUID_BYTES);
  fixed.writeUInt32BE(Math.floor(issuedAt / DAY_MS), 2 * UUID_BYTES);
  const content = Buffer.concat([fixed, Buffer.from(address)]);
  const nonce = createHmac('sha256', key.nonce).update(content).digest().subarray(0, NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.seal, nonce).setAAD(Buffer.of(VERSION));
  const sealed = Buffer.concat([cipher.update(content), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), nonce, sealed, cipher.getAuthTag()]).toString('base64url');
}

/** Returns the contents of a token, however old; undefined for any other text. */
export function readUnsubscribeToken(key: UnsubscribeKey, token: string): Unsubscribing | undefined {
  if (token.length > UNSUBSCRIBE_TOKEN_MAX || !/^[A-Za-z0-9_-]+$/.test(token)) return undefined;
  const bytes = Buffer.from(token, 'base64url');
  if (bytes.length < BYTES_MIN || bytes[0] !== VERSION) return undefined;
  // Rejects other encodings of the same bytes (the last character has unused bits), so that a content has one token.
  if (bytes.toString('base64url') !== token) return undefined;
  const content = open(key, bytes);
  if (content === undefined) return undefined;
  return {
    tenantId: uuidText(content.subarray(0, UUID_BYTES)),
    messageId: uuidText(content.subarray(UUID_BYTES, 2 * UUID_BYTES)),
    address: content.toString('utf8', FIXED_BYTES),
    issuedAt: content.readUInt32BE(2 * UUID_BYTES) * DAY_MS,
  };
}

/** Returns whether a token issued at `issuedAt` has expired. */
export function isUnsubscribeOver(issuedAt: number, now: number): boolean {
  return now - issuedAt >= (UNSUBSCRIBE_DAYS + 1) * DAY_MS;
}

/** Returns the URL at which a recipient unsubscribes. */
export function unsubscribeUrl(publicBaseUrl: string, token: string): string {
  return `${publicBaseUrl.replace(/\/+$/, '')}/v1/unsubscribe/${token}`;
}

function open({ seal }: UnsubscribeKey, bytes: Buffer): Buffer | undefined {
  const nonce = bytes.subarray(1, 1 + NONCE_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', seal, nonce, { authTagLength: TAG_BYTES })
    .setAAD(bytes.subarray(0, 1))
    .setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(1 + NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    return undefined;
  }
}

function uuidBytes(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}

function uuidText(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
