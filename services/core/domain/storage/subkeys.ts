import { createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import type { Secret } from './secret.ts';

const PURPOSES = ['key-hash', 'key-secret', 'webhook-secret', 'fingerprint', 'cursor'] as const;
type Purpose = (typeof PURPOSES)[number];

/**
 * Keys of the api, one per purpose, all derived from the configured pepper:
 * - `key-hash` hashes service keys, `key-secret` derives their secrets from a nonce,
 * - `webhook-secret` derives the secrets of webhook endpoints from a nonce,
 * - `fingerprint` hashes request bodies for idempotency,
 * - `cursor` signs and encrypts list cursors.
 *
 * Key objects, because Node takes four times as long for an HMAC whose key is a buffer.
 */
export type Subkeys = { readonly [P in Purpose]: KeyObject };

export function deriveSubkeys(pepper: Secret): Subkeys {
  const derive = (purpose: Purpose): KeyObject =>
    createSecretKey(new Uint8Array(hkdfSync('sha256', pepper.reveal(), '', `despatch:v1:${purpose}`, 32)));
  return Object.fromEntries(PURPOSES.map((purpose) => [purpose, derive(purpose)])) as Subkeys;
}
