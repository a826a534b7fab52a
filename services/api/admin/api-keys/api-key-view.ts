import { formatServiceKey, keyPrefix } from '#core/domain/tenant/service-key.ts';
import type { ApiKey as ApiKeyRecord } from '#core/store/tenants/api-keys.ts';
import { iso } from '../../http/iso.ts';
import type { ApiKey, ApiKeyWithSecret } from './api-key-schema.ts';

export function viewApiKey(key: ApiKeyRecord): ApiKey {
  return {
    id: key.id,
    name: key.name,
    prefix: keyPrefix(key.mode, key.keyId),
    mode: key.mode,
    scopes: [...key.scopes],
    rateLimitRpm: key.rateLimitRpm,
    expiresAt: iso(key.expiresAt),
    createdAt: key.createdAt.toISOString(),
    lastUsedAt: iso(key.lastUsedAt),
    status: key.status,
    graceUntil: iso(key.graceUntil),
  };
}

/** Returns the answer that shows a key with its secret. */
export function withSecret(view: ApiKey, secret: string): ApiKeyWithSecret {
  const keyId = view.prefix.slice(keyPrefix(view.mode, '').length);
  return { ...view, key: formatServiceKey({ mode: view.mode, keyId, secret }) };
}
