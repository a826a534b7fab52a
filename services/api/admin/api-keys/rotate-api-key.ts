import { AppError } from '#core/domain/fault/app-error.ts';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { deriveKeySecret } from '#core/domain/tenant/service-key.ts';
import { replaceApiKeySecret, type ApiKey as ApiKeyRecord } from '#core/store/tenants/api-keys.ts';
import { createInTenant } from '../../changes/change-tenant.ts';
import { iso } from '../../http/iso.ts';
import { scopeOf } from '../../changes/change-scope.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import { apiKeyAuth, apiKeyTag, requireApiKey, assertInUse } from './change-api-key.ts';
import { ApiKeyWithSecret, RotateApiKey } from './api-key-schema.ts';
import { newKeySecret } from './api-key-secret.ts';
import { viewApiKey, withSecret } from './api-key-view.ts';

export function rotateApiKeyRoute(deps: AdminDeps): RouteModule {
  const { subkeys } = deps;
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/api-keys/:id/rotate',
    operation: 'rotateApiKey',
    summary: 'Give a key a new secret',
    description:
      'Returns the new key. The previous key stays valid for `graceSeconds`, 24 hours by default; with 0 it is refused at once. During that time another rotation returns 409 `invalid_state`: at most two keys are valid at a time. A rotation with 0 ends all previous keys at once.',
    tag: apiKeyTag,
    auth: apiKeyAuth,
    params: IdParams,
    idempotent: true,
    body: RotateApiKey,
    response: ApiKeyWithSecret,
    errors: ['invalid_state', 'idempotency_mismatch'],
    handler: async ({ caller, params, body: { graceSeconds }, idempotency, request }) => {
      const id = params.id as ApiKeyId;
      const result = await createInTenant<ApiKeyWithSecret>(
        deps,
        scopeOf(caller, request),
        idempotency,
        async (change) => {
          const before = await requireApiKey(caller, change, id);
          assertInUse(before);
          if (graceSeconds > 0) assertSettled(before);
          const { nonce, secret, hash } = newKeySecret(deps, id);
          const graceUntil = graceSeconds === 0 ? null : new Date(Date.now() + graceSeconds * 1_000);
          await replaceApiKeySecret(caller.tenant.id, change.tx, id, hash, graceUntil);
          const facts = { graceUntil: iso(graceUntil) };
          const details = { name: before.name, changes: [{ field: 'key' }] };
          await change.audit('api_key.rotated', id, facts, details);
          const stored = viewApiKey(await requireApiKey(caller, change, id));
          return { status: 200, body: withSecret(stored, secret), stored, nonce };
        },
        (stored, nonce) => withSecret(stored, deriveKeySecret(subkeys['key-secret'], stored.id, nonce)),
      );
      if (!result.replayed) deps.notify('key', { tenantId: caller.tenant.id, id });
      return result;
    },
  });
}

/** Keeps the grace period of the previous secret. @throws AppError `invalid_state` */
function assertSettled({ graceUntil }: ApiKeyRecord): void {
  if (graceUntil === null) return;
  const message = `API key is being rotated: its former secret is good until ${graceUntil.toISOString()}. Wait until then, or rotate with graceSeconds 0, which ends all former secrets at once`;
  throw new AppError('invalid_state', { message });
}
