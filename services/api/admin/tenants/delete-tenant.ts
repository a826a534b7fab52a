import type { TenantId } from '#core/domain/storage/ids.ts';
import { beginDeletion } from '#core/store/tenants/tenants.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import {
  assertUnmanaged,
  changeAsAdmin,
  requireTenant,
  tenantRouteAuth,
  tenantRouteTag,
} from './tenant-access.ts';
import { Tenant, viewTenant } from './tenant-view.ts';

const DELETION = `For platform admins; cannot be undone. From now on, calls with its keys and writes of its members are refused, and waiting messages are no longer sent. A controller then deletes every row of the tenant, destroys its encryption key and finally deletes the tenant itself; calls to providers that are under way end first. Until then the tenant has the status \`deleting\` and its slug stays taken; afterwards the answer is 404. Repeating the call changes nothing.

If no controller runs, as in the quick start, the tenant stays \`deleting\`, with its data and key.`;

export function deleteTenantRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/tenants/:id',
    operation: 'deleteTenant',
    summary: 'Delete a tenant',
    description: DELETION,
    tag: tenantRouteTag,
    auth: tenantRouteAuth,
    params: IdParams,
    status: 202,
    response: Tenant,
    errors: ['insufficient_role', 'managed_by_cluster'],
    handler: async ({ caller, params, request }) => {
      const id = params.id as TenantId;
      const tenant = await changeAsAdmin(deps, { caller, id, request }, async (change, before) => {
        assertUnmanaged(change);
        if (change.tenant.status !== 'deleting') {
          await beginDeletion(id, change.tx);
          await change.audit('tenant.purge_begun', id, {}, { name: before.name });
        }
        return requireTenant(change.tx, id);
      });
      deps.notify('tenant', { tenantId: id });
      return { body: viewTenant(tenant) };
    },
  });
}
