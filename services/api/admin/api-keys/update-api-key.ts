import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { updateApiKey, type ApiKey as ApiKeyRecord } from '#core/store/tenants/api-keys.ts';
import { changeTenant } from '../../changes/change-tenant.ts';
import { iso } from '../../http/iso.ts';
import { scopeOf } from '../../changes/change-scope.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import {
  apiKeyAuth,
  apiKeyTag,
  futureExpiry,
  inOrder,
  requireApiKey,
  assertInUse,
} from './change-api-key.ts';
import { ApiKey, UpdateApiKey } from './api-key-schema.ts';
import { viewApiKey } from './api-key-view.ts';

export function updateApiKeyRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'PATCH',
    path: '/v1/admin/api-keys/:id',
    operation: 'updateApiKey',
    summary: 'Change a key',
    description:
      'Absent fields keep their values; null removes a limit or an expiry. The key itself stays valid. An expired or revoked key cannot be changed: 409 `invalid_state`.',
    tag: apiKeyTag,
    auth: apiKeyAuth,
    params: IdParams,
    body: UpdateApiKey,
    response: ApiKey,
    errors: ['invalid_state'],
    handler: async ({ caller, params, body, request }) => {
      const id = params.id as ApiKeyId;
      const { name, rateLimitRpm, expiresAt } = body;
      const scopes = body.scopes === undefined ? undefined : inOrder(body.scopes);
      const key = await changeTenant(deps, scopeOf(caller, request), async (change) => {
        const before = await requireApiKey(caller, change, id);
        if (Object.values(body).every((value) => value === undefined)) return before;
        assertInUse(before);
        const expiry = expiresAt === undefined ? undefined : futureExpiry(expiresAt);
        await updateApiKey(caller.tenant.id, change.tx, id, {
          name,
          scopes,
          rateLimitRpm,
          expiresAt: expiry,
        });
        const after = await requireApiKey(caller, change, id);
        const facts = {
          ...(scopes === undefined ? {} : { scopes }),
          ...(expiry === undefined ? {} : { expiresAt: iso(expiry) }),
        };
        const changes = auditChanges(settingsOf(before), settingsOf(after));
        await change.audit('api_key.updated', id, facts, { name: before.name, changes });
        return after;
      });
      deps.notify('key', { tenantId: caller.tenant.id, id });
      return { body: viewApiKey(key) };
    },
  });
}

/** Returns the settings that an update can change. */
function settingsOf(key: ApiKeyRecord): Record<string, unknown> {
  const { name, scopes, rateLimitRpm, expiresAt } = viewApiKey(key);
  return { name, scopes, rateLimitRpm, expiresAt };
}
