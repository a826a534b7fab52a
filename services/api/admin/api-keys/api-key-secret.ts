import { randomBytes } from 'node:crypto';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { deriveKeySecret, hashKeySecret } from '#core/domain/tenant/service-key.ts';
import type { AdminDeps } from '../admin-deps.ts';

const NONCE_BYTES = 16;

/** Makes a secret of a key. Its hash authenticates, and from the nonce a replay derives it again: it is not stored itself. */
export function newKeySecret({ subkeys }: Pick<AdminDeps, 'subkeys'>, id: ApiKeyId) {
  const nonce = randomBytes(NONCE_BYTES);
  const secret = deriveKeySecret(subkeys['key-secret'], id, nonce);
  return { nonce, secret, hash: hashKeySecret(subkeys['key-hash'], secret) };
}
