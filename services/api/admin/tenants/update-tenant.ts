import { z } from 'zod';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import { beingDeleted } from '#core/domain/tenant/not-active.ts';
import { movePlan, renameTenant } from '#core/store/tenants/tenants.ts';
import { assertPlatformAdmin, assertRole } from '../../auth/assert-role.ts';
import { assertActive } from '../../changes/assert-active.ts';
import { originOf } from '../../changes/change-scope.ts';
import { changeTenant } from '../../changes/change-tenant.ts';
import { text } from '../../http/input/fields.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { planField } from './plan-field.ts';
import { assertUnmanaged, reach, requireTenant, tenantRouteAuth, tenantRouteTag } from './tenant-access.ts';
import { Tenant, viewTenant } from './tenant-view.ts';

const UpdateTenant = z
  .object({ name: text(2, 80).optional(), plan: planField.optional() })
  .meta({ id: 'UpdateTenant', description: 'Changes to a tenant.', examples: [{ name: 'Acme Ltd' }] });

export function updateTenantRoute(deps: AdminDeps): RouteModule {
  const { sql, notify } = deps;
  return defineRoute({
    method: 'PATCH',
    path: '/v1/admin/tenants/:id',
    operation: 'updateTenant',
    summary: 'Change a tenant',
    description:
      'Owners and admins change the name, platform admins the plan. Absent fields keep their values.',
    tag: tenantRouteTag,
    auth: tenantRouteAuth,
    params: IdParams,
    body: UpdateTenant,
    response: Tenant,
    errors: ['insufficient_role', 'tenant_suspended', 'managed_by_cluster', 'invalid_state'],
    handler: async ({ caller, params, body: { name, plan }, request }) => {
      const id = params.id as TenantId;
      const { role } = await reach(sql, caller, id);
      if (!caller.isPlatformAdmin) {
        if (role !== null) assertRole(role, 'admin');
        if (plan !== undefined) assertPlatformAdmin(caller);
      }
      const { tenant, isChanged } = await changeTenant(
        deps,
        {
          tenantId: id,
          origin: originOf(caller, request),
          by: caller.isPlatformAdmin ? null : { userId: caller.user.id, role: 'admin' },
        },
        async (change) => {
          if (!caller.isPlatformAdmin) assertActive(change.tenant);
          // Each change of its row would put its purge off.
          if (change.tenant.status === 'deleting') throw beingDeleted();
          if (plan !== undefined) assertUnmanaged(change);
          const before = await requireTenant(change.tx, id);
          if (plan !== undefined) await movePlan(id, change.tx, plan, change.tenant.overrides);
          if (name !== undefined) await renameTenant(id, change.tx, name);
          const after = await requireTenant(change.tx, id);
          const changes = auditChanges(
            { name: before.name, plan: before.plan },
            { name: after.name, plan: after.plan },
          );
          if (name !== undefined || plan !== undefined)
            await change.audit('tenant.updated', id, {}, { name: before.name, changes });
          return { tenant: after, isChanged: plan !== undefined || after.name !== before.name };
        },
      );
      if (isChanged) notify('tenant', { tenantId: id });
      return { body: viewTenant(tenant) };
    },
  });
}
