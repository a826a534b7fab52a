import { z } from 'zod';
import { beingDeleted } from '#core/domain/tenant/not-active.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { setSuspension, SUSPENSION_REASONS, type SuspensionReason } from '#core/store/tenants/tenants.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import {
  assertUnmanaged,
  changeAsAdmin,
  requireTenant,
  tenantRouteAuth,
  tenantRouteTag,
  type TenantCall,
} from './tenant-access.ts';
import { Tenant, viewTenant } from './tenant-view.ts';

const SuspendTenant = z.object({ reason: z.enum(SUSPENSION_REASONS).default('manual') }).meta({
  id: 'SuspendTenant',
  description: 'Why a tenant is suspended.',
  examples: [{ reason: 'billing' }],
});

export function suspendTenantRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/tenants/:id/suspend',
    operation: 'suspendTenant',
    summary: 'Suspend a tenant',
    description:
      'For platform admins. Calls with its keys and writes of its members are refused; queued messages are held and nothing is lost. Repeating the call changes the reason. A tenant that is suspended because its cluster resource was deleted can be suspended as well: a new resource then resumes it only after a call to resume it.',
    tag: tenantRouteTag,
    auth: tenantRouteAuth,
    params: IdParams,
    body: SuspendTenant,
    response: Tenant,
    errors: ['insufficient_role', 'managed_by_cluster', 'invalid_state'],
    handler: async ({ caller, params, body, request }) => ({
      body: await moveSuspension(deps, { caller, id: params.id as TenantId, request }, body.reason),
    }),
  });
}

export function resumeTenantRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/tenants/:id/resume',
    operation: 'resumeTenant',
    summary: 'Resume a suspended tenant',
    description: 'For platform admins. Held messages continue from where they were.',
    tag: tenantRouteTag,
    auth: tenantRouteAuth,
    params: IdParams,
    response: Tenant,
    errors: ['insufficient_role', 'managed_by_cluster', 'invalid_state'],
    handler: async ({ caller, params, request }) => ({
      body: await moveSuspension(deps, { caller, id: params.id as TenantId, request }, null),
    }),
  });
}

async function moveSuspension(
  deps: AdminDeps,
  call: TenantCall,
  reason: SuspensionReason | null,
): Promise<z.output<typeof Tenant>> {
  const { caller, id } = call;
  const { tenant, isChanged } = await changeAsAdmin(deps, call, async (change) => {
    const { status } = change.tenant;
    assertUnmanaged(change);
    if (status !== 'active' && status !== 'suspended') throw beingDeleted();
    // Read under the lock: another admin may have changed the reason at the same time.
    const before = await requireTenant(change.tx, id);
    // A suspension that a deleted resource left behind becomes the caller's, so that a new resource does not lift it.
    const isOfResource = before.suspendedBy?.includes('/') === true;
    if (status === 'active' ? reason === null : reason === before.suspensionReason && !isOfResource)
      return { tenant: before, isChanged: false };
    await setSuspension(id, change.tx, reason, caller.user.id);
    const changes = [{ field: 'suspension', from: before.suspensionReason, to: reason }];
    const details = { name: before.name, changes };
    await change.audit(reason === null ? 'tenant.resumed' : 'tenant.suspended', id, { reason }, details);
    return { tenant: await requireTenant(change.tx, id), isChanged: true };
  });
  if (isChanged) deps.notify('tenant', { tenantId: id });
  return viewTenant(tenant);
}
