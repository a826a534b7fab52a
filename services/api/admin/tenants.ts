import { z } from 'zod';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import { AppError, notFound } from '#core/domain/fault/app-error.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { PLAN_NAMES, type PlanName } from '#core/domain/tenant/plan.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import { SLUG } from '#core/domain/tenant/slug.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { directoryStore, type TenantFacts } from '#core/store/directory.ts';
import {
  beginDeletion,
  countOwnedTenants,
  createTenant,
  findTenant,
  isSlugTaken,
  liftBrakes,
  listTenants,
  movePlan,
  renameTenant,
  setSuspension,
  SUSPENSION_REASONS,
  type SuspensionReason,
  type TenantPosition,
} from '#core/store/tenants.ts';
import { assertActive } from '../changes/assert-active.ts';
import { assertBelow } from '../changes/assert-below.ts';
import { assertRole, insufficientRole } from '../auth/assert-role.ts';
import { auditTo, changeTenant, type Change } from '../changes/change-tenant.ts';
import { earlierAnswer } from '../http/routes/earlier-answer.ts';
import { originOf } from '../changes/change-scope.ts';
import type { AdminDeps } from './admin-deps.ts';
import { withDatabaseDeadline } from '#core/store/tenant-scope.ts';
import type { UserCaller } from '../auth/auth.ts';
import { pageFrom } from '../http/lists/cursor.ts';
import { createOnce } from '../http/routes/idempotency.ts';
import { inSlot } from '../http/admission/shared-slots.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { idempotencyKeyField } from '../http/routes/idempotency.ts';
import { IdParams, type RequestFacts, type RouteModule } from '../http/routes/route.ts';
import { pageOf, pageQuery } from '../http/lists/page.ts';
import { Tenant, viewTenant } from './tenant-view.ts';
import { text } from '../http/input/fields.ts';

const tag = 'Tenants';
const auth = { kind: 'user' } as const;
const Plan = z
  .enum(PLAN_NAMES as [PlanName, ...PlanName[]])
  .describe(
    'The tenant gets the built-in limits of this plan, even if the cluster has a Plan of the same name.',
  );

const CreateTenant = z
  .object({
    name: text(2, 80),
    slug: z
      .string()
      .regex(SLUG, 'Must be 1 to 63 lower-case letters, digits and inner hyphens')
      .describe('Names the tenant in `X-Tenant-Slug`; cannot be changed.'),
    plan: Plan.default('free'),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'CreateTenant',
    description: 'A tenant to create.',
    examples: [{ name: 'Acme', slug: 'acme' }],
  });

const UpdateTenant = z
  .object({ name: text(2, 80).optional(), plan: Plan.optional() })
  .meta({ id: 'UpdateTenant', description: 'Changes to a tenant.', examples: [{ name: 'Acme Ltd' }] });

const SuspendTenant = z.object({ reason: z.enum(SUSPENSION_REASONS).default('manual') }).meta({
  id: 'SuspendTenant',
  description: 'Why a tenant is suspended.',
  examples: [{ reason: 'billing' }],
});

const LiftBrake = z.object({ channel: z.enum(CHANNELS).optional() }).meta({
  id: 'LiftBrake',
  description: 'The channel whose brake is lifted; if absent, all channels.',
  examples: [{ channel: 'email' }],
});

const DELETION = `For platform admins; cannot be undone. From now on, calls with its keys and writes of its members are refused, and waiting messages are no longer sent. A controller then deletes every row of the tenant, destroys its encryption key and finally deletes the tenant itself; calls to providers that are under way end first. Until then the tenant has the status \`deleting\` and its slug stays taken; afterwards the answer is 404. Repeating the call changes nothing.

If no controller runs, as in the quick start, the tenant stays \`deleting\`, with its data and key.`;

export function tenantRoutes(deps: AdminDeps): RouteModule[] {
  return [
    create(deps),
    list(deps),
    read(deps),
    update(deps),
    suspend(deps),
    resume(deps),
    liftBrake(deps),
    remove(deps),
  ];
}

function create(deps: AdminDeps): RouteModule {
  const { sql, slots, notify, selfServeTenants, tenantsPerUserMax } = deps;
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/tenants',
    operation: 'createTenant',
    summary: 'Create a tenant',
    description:
      'The caller becomes its owner. If the installation has no self-service, and for any plan but `free`, the caller must be a platform admin.',
    tag,
    auth,
    idempotent: true,
    body: CreateTenant,
    status: 201,
    response: Tenant,
    errors: ['slug_taken', 'insufficient_role', 'plan_limit_reached', 'idempotency_mismatch'],
    handler: async ({ caller, body, idempotency, request }) => {
      if (!caller.isPlatformAdmin && (!selfServeTenants || body.plan !== 'free'))
        throw insufficientRole('platform admin');
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
              assertBelow(await countOwnedTenants(tx, creator), tenantsPerUserMax, 'tenantsPerUserMax');
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

function list({ sql, cursors }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/tenants',
    operation: 'listTenants',
    summary: 'List tenants',
    description: 'The tenants that the caller is a member of; a platform admin sees all.',
    tag,
    auth,
    query: z.object(pageQuery),
    response: pageOf(Tenant),
    errors: ['invalid_cursor'],
    handler: async ({ caller, query: { limit, cursor } }) => {
      const pages = { list: 'tenants', of: caller.isPlatformAdmin ? null : caller.user.id };
      const after = cursors.position<TenantPosition>(pages, cursor);
      const rows = await withDatabaseDeadline(listTenants(sql, { member: pages.of, after, most: limit + 1 }));
      return {
        body: pageFrom(
          rows,
          limit,
          ({ tenant }) => viewTenant(tenant),
          ({ position }) => cursors.next(pages, position),
        ),
      };
    },
  });
}

function read({ sql }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/tenants/:id',
    operation: 'getTenant',
    summary: 'Show a tenant',
    description: 'A tenant that the caller is a member of; a platform admin sees all.',
    tag,
    auth,
    params: IdParams,
    response: Tenant,
    handler: async ({ caller, params }) => {
      const { tenant } = await reach(sql, caller, params.id as TenantId);
      return { body: viewTenant(tenant) };
    },
  });
}

function update(deps: AdminDeps): RouteModule {
  const { sql, notify } = deps;
  return defineRoute({
    method: 'PATCH',
    path: '/v1/admin/tenants/:id',
    operation: 'updateTenant',
    summary: 'Change a tenant',
    description:
      'Owners and admins change the name, platform admins the plan. Absent fields keep their values.',
    tag,
    auth,
    params: IdParams,
    body: UpdateTenant,
    response: Tenant,
    errors: ['insufficient_role', 'tenant_suspended', 'managed_by_cluster', 'invalid_state'],
    handler: async ({ caller, params, body: { name, plan }, request }) => {
      const id = params.id as TenantId;
      const { role } = await reach(sql, caller, id);
      if (!caller.isPlatformAdmin) {
        if (role !== null) assertRole(role, 'admin');
        if (plan !== undefined) throw insufficientRole('platform admin');
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
          if (change.tenant.status === 'deleting') throw new AppError('invalid_state');
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

function suspend(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/tenants/:id/suspend',
    operation: 'suspendTenant',
    summary: 'Suspend a tenant',
    description:
      'For platform admins. Calls with its keys and writes of its members are refused; queued messages are held and nothing is lost. Repeating the call changes the reason. A tenant that is suspended because its cluster resource was deleted can be suspended as well: a new resource then resumes it only after a call to resume it.',
    tag,
    auth,
    params: IdParams,
    body: SuspendTenant,
    response: Tenant,
    errors: ['insufficient_role', 'managed_by_cluster', 'invalid_state'],
    handler: async ({ caller, params, body, request }) => ({
      body: await moveSuspension(deps, { caller, id: params.id as TenantId, request }, body.reason),
    }),
  });
}

function resume(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/tenants/:id/resume',
    operation: 'resumeTenant',
    summary: 'Resume a suspended tenant',
    description: 'For platform admins. Held messages continue from where they were.',
    tag,
    auth,
    params: IdParams,
    response: Tenant,
    errors: ['insufficient_role', 'managed_by_cluster', 'invalid_state'],
    handler: async ({ caller, params, request }) => ({
      body: await moveSuspension(deps, { caller, id: params.id as TenantId, request }, null),
    }),
  });
}

function liftBrake(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/tenants/:id/lift-brake',
    operation: 'liftBrake',
    summary: "Lift a tenant's abuse brake",
    description:
      'For platform admins. Slowed channels send as before, messages that a brake holds continue from where they were, and the measurement of rates restarts: no brake is applied before another 1,000 messages are final. Without a brake nothing changes.',
    tag,
    auth,
    params: IdParams,
    body: LiftBrake,
    response: Tenant,
    errors: ['insufficient_role'],
    handler: async ({ caller, params, body: { channel }, request }) => {
      const id = params.id as TenantId;
      const { tenant: before } = await reach(deps.sql, caller, id);
      if (!caller.isPlatformAdmin) throw insufficientRole('platform admin');
      const tenant = await changeTenant(
        deps,
        { tenantId: id, origin: originOf(caller, request), by: null },
        async (change) => {
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
        },
      );
      deps.notify('tenant', { tenantId: id });
      return { body: viewTenant(tenant) };
    },
  });
}

function remove(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/tenants/:id',
    operation: 'deleteTenant',
    summary: 'Delete a tenant',
    description: DELETION,
    tag,
    auth,
    params: IdParams,
    status: 202,
    response: Tenant,
    errors: ['insufficient_role', 'managed_by_cluster'],
    handler: async ({ caller, params, request }) => {
      const id = params.id as TenantId;
      const { tenant: before } = await reach(deps.sql, caller, id);
      if (!caller.isPlatformAdmin) throw insufficientRole('platform admin');
      const tenant = await changeTenant(
        deps,
        { tenantId: id, origin: originOf(caller, request), by: null },
        async (change) => {
          assertUnmanaged(change);
          if (change.tenant.status !== 'deleting') {
            await beginDeletion(id, change.tx);
            await change.audit('tenant.purge_begun', id, {}, { name: before.name });
          }
          return requireTenant(change.tx, id);
        },
      );
      deps.notify('tenant', { tenantId: id });
      return { body: viewTenant(tenant) };
    },
  });
}

/** Which tenant a call is about, and who makes the call. */
type TenantCall = { readonly caller: UserCaller; readonly id: TenantId; readonly request: RequestFacts };

async function moveSuspension(
  deps: AdminDeps,
  { caller, id, request }: TenantCall,
  reason: SuspensionReason | null,
): Promise<z.output<typeof Tenant>> {
  await reach(deps.sql, caller, id);
  if (!caller.isPlatformAdmin) throw insufficientRole('platform admin');
  const { tenant, isChanged } = await changeTenant(
    deps,
    { tenantId: id, origin: originOf(caller, request), by: null },
    async (change) => {
      const { status } = change.tenant;
      assertUnmanaged(change);
      if (status !== 'active' && status !== 'suspended') throw new AppError('invalid_state');
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
    },
  );
  if (isChanged) deps.notify('tenant', { tenantId: id });
  return viewTenant(tenant);
}

function assertUnmanaged({ tenant }: Change): void {
  if (tenant.isManaged) throw new AppError('managed_by_cluster');
}

/**
 * Returns the tenant if the caller may know of it, as a member or as a platform admin (whose role may be null).
 * @throws AppError `not_found`
 */
async function reach(
  sql: AdminDeps['sql'],
  caller: UserCaller,
  id: TenantId,
): Promise<{ readonly tenant: TenantFacts; readonly role: Role | null }> {
  const memberships = await directoryStore(sql).memberships(caller.user.id);
  const own = memberships.find(({ tenant }) => tenant.id === id);
  if (own !== undefined) return own;
  // Tests break this (mutant: tenant-stranger): a tenant is visible to its members and to platform admins only.
  const tenant = caller.isPlatformAdmin ? await withDatabaseDeadline(findTenant(sql, id)) : undefined;
  if (tenant === undefined) throw notFound();
  return { tenant, role: null };
}

async function requireTenant(tx: TransactionSql, id: TenantId): Promise<TenantFacts> {
  const tenant = await findTenant(tx, id);
  if (tenant === undefined) throw notFound();
  return tenant;
}
