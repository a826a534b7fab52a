import { newId, type ApiKeyId } from '#core/domain/storage/ids.ts';
import { deriveKeySecret, newKeyId } from '#core/domain/tenant/service-key.ts';
import { countApiKeys, insertApiKey } from '#core/store/tenants/api-keys.ts';
import { assertBelow } from '../../changes/assert-below.ts';
import { createInTenant } from '../../changes/change-tenant.ts';
import { scopeOf } from '../../changes/change-scope.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import type { RouteModule } from '../../http/routes/route.ts';
import { apiKeyAuth, apiKeyTag, futureExpiry, inOrder } from './change-api-key.ts';
import { ApiKeyWithSecret, CreateApiKey } from './api-key-schema.ts';
import { newKeySecret } from './api-key-secret.ts';
import { viewApiKey, withSecret } from './api-key-view.ts';

export function createApiKeyRoute(deps: AdminDeps): RouteModule {
  const { subkeys, notify } = deps;
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/api-keys',
    operation: 'createApiKey',
    summary: 'Create a key',
    description:
      'The answer contains the key itself. It is shown only once: only a fingerprint of it is stored.',
    tag: apiKeyTag,
    auth: apiKeyAuth,
    idempotent: true,
    body: CreateApiKey,
    status: 201,
    response: ApiKeyWithSecret,
    errors: ['plan_limit_reached', 'idempotency_mismatch'],
    handler: async ({ caller, body, idempotency, request }) => {
      const result = await createInTenant<ApiKeyWithSecret>(
        deps,
        scopeOf(caller, request),
        idempotency,
        async ({ tx, tenant, audit }) => {
          assertBelow(await countApiKeys(caller.tenant.id, tx), tenant.limits.apiKeysMax, 'apiKeysMax');
          const id = newId<ApiKeyId>();
          const { nonce, secret, hash } = newKeySecret(deps, id);
          const record = await insertApiKey(caller.tenant.id, tx, {
            id,
            keyId: newKeyId(),
            name: body.name,
            mode: body.mode,
            scopes: inOrder(body.scopes),
            rateLimitRpm: body.rateLimitRpm,
            expiresAt: futureExpiry(body.expiresAt),
            secretHash: hash,
          });
          await audit('api_key.created', id, {}, { name: record.name });
          const stored = viewApiKey(record);
          return { status: 201, body: withSecret(stored, secret), stored, nonce };
        },
        (stored, nonce) => withSecret(stored, deriveKeySecret(subkeys['key-secret'], stored.id, nonce)),
      );
      if (!result.replayed) notify('key', { tenantId: caller.tenant.id, id: result.body.id });
      return result;
    },
  });
}
