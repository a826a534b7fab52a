import { z } from 'zod';
import { AppError } from '#core/domain/fault/app-error.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { SLUG } from '#core/domain/tenant/slug.ts';
import { withDatabaseDeadline } from '#core/store/query/tenant-scope.ts';
import { countCreatedTenants, createTenant, isSlugTaken } from '#core/store/tenants/tenants.ts';
import { assertPlatformAdmin } from '../../auth/assert-role.ts';
import { assertBelow } from '../../changes/assert-below.ts';
import { originOf } from '../../changes/change-scope.ts';
import { auditTo } from '../../changes/change-tenant.ts';
import { inSlot } from '../../http/admission/shared-slots.ts';
import { text } from '../../http/input/fields.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { earlierAnswer } from '../../http/routes/earlier-answer.ts';
import { createOnce, idempotencyKeyField } from '../../http/routes/idempotency.ts';
import type { RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { planField } from './plan-field.ts';
import { tenantRouteAuth, tenantRouteTag } from './tenant-access.ts';
import { Tenant, viewTenant } from './tenant-view.ts';

const CreateTenant = z
  .object({
    name: text(2, 80),
    slug: z
      .string()
      .regex(SLUG, 'Must be 1 to 63 lower-case letters, digits and inner hyphens')
      .describe('Names the tenant in `X-Tenant-Slug`; cannot be changed.'),
    plan: planField.default('free'),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'CreateTenant',
    description: 'A tenant to create.',
    examples: [{ name: 'Acme', slug: 'acme' }],
  });

export function createTenantRoute(deps: AdminDeps): RouteModule {
  const { sql, slots, notify, selfServeTenants, tenantsPerUserMax } = deps;
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/tenants',
    operation: 'createTenant',
    summary: 'Create a tenant',
    description:
      'The caller becomes its owner. If the installation has no self-service, and for any plan but `free`, the caller must be a platform admin.',
    tag: tenantRouteTag,
    auth: tenantRouteAuth,
    idempotent: true,
    body: CreateTenant,
    status: 201,
    response: Tenant,
    errors: ['slug_taken', 'insufficient_role', 'plan_limit_reached', 'idempotency_mismatch'],
    handler: async ({ caller, body, idempotency, request }) => {
      if (!selfServeTenants || body.plan !== 'free') assertPlatformAdmin(caller);
      // This order matters: a concurrent duplicate of this request takes the slug and stores its answer in one commit.
      const isTaken = await withDatabaseDeadline(isSlugTaken(sql, body.slug));
      const creator = caller.user.id;
      const earlier = await earlierAnswer<z.output<typeof Tenant>>(deps, { creator }, idempotency);
      if (earlier !== null) return earlier;
      if (isTaken) throw new AppError('slug_taken');
      const id = newId<TenantId>();
      const result = await inSlot(slots, creator, () =>
        createOnce(sql, {
          tenantId: id,
          claim: idempotency,
          create: async (tx) => {
            if (!caller.isPlatformAdmin) {
              assertBelow(await countCreatedTenants(tx, creator), tenantsPerUserMax, 'tenantsPerUserMax');
            }
            const tenant = await createTenant(tx, { id, ...body, owner: creator });
            if (tenant === undefined) throw new AppError('slug_taken');
            const scope = { tenantId: id, origin: originOf(caller, request) };
            await auditTo({ tx, trail: deps.audit }, scope)('tenant.created', id, {}, { name: tenant.name });
            return { status: 201, body: viewTenant(tenant) };
          },
        }),
      );
      if (!result.replayed) notify('tenant', { tenantId: id });
      return result;
    },
  });
}
