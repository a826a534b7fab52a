import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { liftBrakes } from '#core/store/tenants.ts';
import { assertPlatformAdmin } from '../../auth/assert-role.ts';
import { adminScope } from '../../changes/change-scope.ts';
import { changeTenant } from '../../changes/change-tenant.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { reach, requireTenant, tenantRouteAuth, tenantRouteTag } from './tenant-access.ts';
import { Tenant, viewTenant } from './tenant-view.ts';

const LiftBrake = z.object({ channel: z.enum(CHANNELS).optional() }).meta({
  id: 'LiftBrake',
  description: 'The channel whose brake is lifted; if absent, all channels.',
  examples: [{ channel: 'email' }],
});

export function liftBrakeRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/tenants/:id/lift-brake',
    operation: 'liftBrake',
    summary: "Lift a tenant's abuse brake",
    description:
      'For platform admins. Slowed channels send as before, messages that a brake holds continue from where they were, and the measurement of rates restarts: no brake is applied before another 1,000 messages are final. Without a brake nothing changes.',
    tag: tenantRouteTag,
    auth: tenantRouteAuth,
    params: IdParams,
    body: LiftBrake,
    response: Tenant,
    errors: ['insufficient_role'],
    handler: async ({ caller, params, body: { channel }, request }) => {
      const id = params.id as TenantId;
      const { tenant: before } = await reach(deps.sql, caller, id);
      assertPlatformAdmin(caller);
      const tenant = await changeTenant(deps, adminScope(id, caller, request), async (change) => {
        const lifted = await liftBrakes(id, change.tx, channel);
        if (lifted.length > 0) {
          const changes = lifted.map((one) => ({
            field: `brake.${one.channel}`,
            from: one.level,
            to: null,
          }));
          const facts = { channels: lifted.map((one) => one.channel) };
          await change.audit('tenant.brake_lifted', id, facts, { name: before.name, changes });
        }
        return requireTenant(change.tx, id);
      });
      deps.notify('tenant', { tenantId: id });
      return { body: viewTenant(tenant) };
    },
  });
}
