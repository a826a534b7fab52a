import type { Brake } from '#core/domain/tenant/brake.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import type { TenantId, UserId } from '#core/domain/storage/ids.ts';
import {
  effectiveLimits,
  BUILT_IN_PLANS,
  type Limits,
  type PlanName,
  type StatedLimits,
} from '#core/domain/tenant/plan.ts';
import type { TenantState } from '#core/domain/tenant/tenant-state.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';
import { toTenantFacts, type TenantFacts, type TenantFactsRow } from './directory.ts';

export const SUSPENSION_REASONS = ['manual', 'billing', 'abuse'] as const;
export type SuspensionReason = (typeof SUSPENSION_REASONS)[number];

/** Finds any tenant, for a platform admin; a deleted one counts as absent. */
export async function findTenant(sql: Sql | TransactionSql, id: TenantId): Promise<TenantFacts | undefined> {
  const [row] = camelRows<TenantFactsRow>(await sql`select * from find_tenant(${id}, null)`.values());
  return row && toTenantFacts(row);
}

export async function isSlugTaken(sql: Sql, slug: string): Promise<boolean> {
  const rows = await sql`select from find_tenant(null, ${slug})`;
  return rows.length > 0;
}

export type NewTenant = {
  readonly id: TenantId;
  readonly slug: string;
  readonly name: string;
  readonly plan: PlanName;
  readonly owner: UserId;
};

/**
 * Returns how many tenants a user created. Locks the user until the transaction ends, so that concurrent requests cannot
 * exceed the limit.
 */
export async function countCreatedTenants(tx: TransactionSql, userId: UserId): Promise<number> {
  const [row] = await tx<{ created: number }[]>`select count_created_tenants(${userId}) as created`;
  return row?.created ?? 0;
}

/** Creates a tenant. Returns undefined if the slug is taken. */
export async function createTenant(tx: TransactionSql, tenant: NewTenant): Promise<TenantFacts | undefined> {
  const [row] = camelRows<TenantFactsRow>(
    await tx`
      select * from create_tenant(${tenant.id}, ${tenant.slug}, ${tenant.name}, ${tenant.plan},
        ${tx.json(BUILT_IN_PLANS[tenant.plan])}, ${tenant.owner})`.values(),
  );
  return row && toTenantFacts(row);
}

/** A page of tenants starts after this one. The time is text, because it is finer than a `Date`. */
export type TenantPosition = { readonly createdAt: string; readonly id: string };

/** Returns tenants, newest first: all, or those of which `member` is a member. */
export async function listTenants(
  sql: Sql,
  query: {
    readonly member: UserId | null;
    readonly after: TenantPosition | undefined;
    readonly most: number;
  },
): Promise<{ readonly tenant: TenantFacts; readonly position: TenantPosition }[]> {
  const rows = camelRows<TenantFactsRow & { readonly position: string }>(
    await sql`
      select *, created_at::text as position
      from list_tenants(${query.member}, ${query.after?.createdAt ?? null}::text::timestamptz, ${query.after?.id ?? null},
        ${query.most})`.values(),
  );
  return rows.map(({ position, ...facts }) => ({
    tenant: toTenantFacts(facts),
    position: { createdAt: position, id: facts.id },
  }));
}

export type LockedTenant = {
  readonly status: TenantState;
  /**
   * True while a cluster resource owns plan, suspension and deletion; also for a tenant that was deleted through the api, which
   * its purge owns.
   */
  readonly isManaged: boolean;
  readonly limits: Limits;
  readonly overrides: StatedLimits | null;
};

/** Locks a tenant, so that changes of its settings run one at a time and counts and last-owner checks hold. */
export async function lockTenant(tenantId: TenantId, tx: TransactionSql): Promise<LockedTenant | undefined> {
  const [row] = await tx<
    { status: TenantState; managed: boolean; limits: StatedLimits | null; overrides: StatedLimits | null }[]
  >`
    select t.status, t.owner_uid is not null and t.owner_ref is not null as managed, l.limits, l.overrides
    from tenants t left join tenant_limits l on l.tenant_id = t.id
    where t.id = ${tenantId} for no key update of t`;
  if (row === undefined) return undefined;
  return {
    status: row.status,
    isManaged: row.managed,
    limits: effectiveLimits(row.limits),
    overrides: row.overrides,
  };
}

export async function renameTenant(tenantId: TenantId, tx: TransactionSql, name: string): Promise<void> {
  await tx`update tenants set name = ${name}, updated_at = now() where id = ${tenantId}`;
}

/** Changes the plan; overrides stay. */
export async function movePlan(
  tenantId: TenantId,
  tx: TransactionSql,
  plan: PlanName,
  overrides: StatedLimits | null,
): Promise<void> {
  await tx`select set_plan(${tenantId}, ${plan}, ${tx.json(effectiveLimits(BUILT_IN_PLANS[plan], overrides))})`;
}

/** Suspends for a reason, or resumes without one. */
export async function setSuspension(
  tenantId: TenantId,
  tx: TransactionSql,
  reason: SuspensionReason | null,
  by: string,
): Promise<void> {
  await tx`select from set_suspension(${tenantId}, ${reason}, ${by})`;
}

/** Lifts the brake of a channel, or all brakes. @returns those that were in force. */
export async function liftBrakes(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel | undefined,
): Promise<Pick<Brake, 'channel' | 'level'>[]> {
  return tx<
    Pick<Brake, 'channel' | 'level'>[]
  >`select channel, level from lift_brake(${tenantId}, ${channel ?? null})`;
}

/** Ends intake and delivery for good; a controller deletes the rows and the key. Does nothing if a resource owns the tenant. */
export async function beginDeletion(tenantId: TenantId, tx: TransactionSql): Promise<void> {
  await tx`select begin_deletion(${tenantId})`;
}

export type TenantLimits = {
  readonly plan: string;
  readonly limits: StatedLimits | null;
  readonly overrides: StatedLimits | null;
  /** The current day, in UTC. */
  readonly day: string;
  /** Messages that count toward that day's quota. */
  readonly used: number;
};

export async function readLimits(tenantId: TenantId, tx: TransactionSql): Promise<TenantLimits | undefined> {
  const [row] = await tx<TenantLimits[]>`
    select t.plan, l.limits, l.overrides,
      (now() at time zone 'UTC')::date as day,
      case when u.day >= (now() at time zone 'UTC')::date then u.used else 0 end as used
    from tenants t
    left join tenant_limits l on l.tenant_id = t.id
    left join lateral (
      select * from tenant_usage x where x.tenant_id = t.id order by x.slot desc limit 1
    ) u on true
    where t.id = ${tenantId}`;
  return row;
}
