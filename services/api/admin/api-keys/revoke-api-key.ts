import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { revokeApiKey } from '#core/store/tenants/api-keys.ts';
import { changeTenant } from '../../changes/change-tenant.ts';
import { scopeOf } from '../../changes/change-scope.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import { apiKeyAuth, apiKeyTag, requireApiKey } from './change-api-key.ts';

export function revokeApiKeyRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/api-keys/:id',
    operation: 'revokeApiKey',
    summary: 'Revoke a key permanently',
    description: 'Its record stays, with status `revoked`. Repeating the call changes nothing.',
    tag: apiKeyTag,
    auth: apiKeyAuth,
    params: IdParams,
    handler: async ({ caller, params, request }) => {
      const id = params.id as ApiKeyId;
      await changeTenant(deps, scopeOf(caller, request), async (change) => {
        const { name } = await requireApiKey(caller, change, id);
        if (await revokeApiKey(caller.tenant.id, change.tx, id))
          await change.audit('api_key.revoked', id, {}, { name });
      });
      deps.notify('key', { tenantId: caller.tenant.id, id });
      return { body: undefined };
    },
  });
}
