import { hkdfSync } from 'node:crypto';
import type { Secret } from './secret.ts';

/** Returns 16 bytes, in hex, by which processes can tell that they have the same pepper; they reveal nothing else about it. */
export function pepperFingerprint(pepper: Secret): string {
  return Buffer.from(hkdfSync('sha256', pepper.reveal(), '', 'despatch:v1:pepper-fingerprint', 16)).toString(
    'hex',
  );
}
