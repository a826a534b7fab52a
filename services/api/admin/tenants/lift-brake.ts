import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { liftBrakes } from '#core/store/tenants/tenants.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { changeAsAdmin, requireTenant, tenantRouteAuth, tenantRouteTag } from './tenant-access.ts';
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
      const tenant = await changeAsAdmin(deps, { caller, id, request }, async (change, before) => {
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
