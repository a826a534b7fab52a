import { hkdfSync } from 'node:crypto';
import type { Secret } from './secret.ts';

const PURPOSES = ['key-hash', 'key-secret', 'fingerprint', 'cursor'] as const;
type Purpose = (typeof PURPOSES)[number];

/**
 * Keys of the api, one per purpose, all derived from the configured pepper:
 * - `key-hash` hashes service keys, `key-secret` derives their secrets from a nonce,
 * - `fingerprint` hashes request bodies for idempotency,
 * - `cursor` signs list cursors.
 */
export type Subkeys = { readonly [P in Purpose]: Buffer };

export function deriveSubkeys(pepper: Secret): Subkeys {
  const derive = (purpose: Purpose): Buffer =>
    Buffer.from(hkdfSync('sha256', pepper.reveal(), '', `despatch:v1:${purpose}`, 32));
  return Object.fromEntries(PURPOSES.map((purpose) => [purpose, derive(purpose)])) as Subkeys;
}
