import { randomUUID } from 'node:crypto';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import type { Scope } from '#core/domain/tenant/role.ts';
import type { Secret } from '#core/domain/storage/secret.ts';
import {
  deriveKeySecret,
  formatServiceKey,
  hashKeySecret,
  newKeyId,
  type KeyMode,
} from '#core/domain/tenant/service-key.ts';
import { deriveSubkeys } from '#core/domain/storage/subkeys.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';

export type TestKey = { readonly id: string; readonly keyId: string; readonly text: string };

export type KeyOptions = {
  readonly mode?: KeyMode;
  readonly scopes?: readonly Scope[];
  readonly rateLimitRpm?: number;
  readonly expiresAt?: Date;
  readonly revokedAt?: Date;
};

/** Returns a function that writes service keys that an api with this pepper accepts. */
export function serviceKeyMaker(
  admin: Sql,
  pepper: Secret,
): (tenantId: string, options?: KeyOptions) => Promise<TestKey> {
  const subkeys = deriveSubkeys(pepper);
  return async (tenantId, options = {}) => {
    const { mode = 'live', scopes = ['messages:send', 'messages:read'] } = options;
    const id = randomUUID() as ApiKeyId;
    const keyId = newKeyId();
    const keySecret = deriveKeySecret(subkeys['key-secret'], id, Buffer.from(id));
    await admin`insert into api_keys (id, tenant_id, key_id, name, mode, scopes, rate_limit_rpm, secret_hash, expires_at, revoked_at)
      values (${id}, ${tenantId}, ${keyId}, 'test', ${mode}, ${[...scopes]}, ${options.rateLimitRpm ?? null},
        ${hashKeySecret(subkeys['key-hash'], keySecret)}, ${options.expiresAt ?? null}, ${options.revokedAt ?? null})`;
    return { id, keyId, text: formatServiceKey({ mode, keyId, secret: keySecret }) };
  };
}
