import { AppError, orNotFound } from '#core/domain/fault/app-error.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { directoryStore, type TenantFacts } from '#core/store/tenants/directory.ts';
import { withDatabaseDeadline } from '#core/store/query/tenant-scope.ts';
import { findTenant } from '#core/store/tenants/tenants.ts';
import { assertPlatformAdmin } from '../../auth/assert-role.ts';
import type { UserCaller } from '../../auth/auth.ts';
import { adminScope } from '../../changes/change-scope.ts';
import { changeTenant, type Change } from '../../changes/change-tenant.ts';
import type { RequestFacts } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';

/** The OpenAPI tag and the auth that the routes of tenants share. */
export const tenantRouteTag = 'Tenants';
export const tenantRouteAuth = { kind: 'user' } as const;

/**
 * Returns the tenant if the caller may know of it, as a member or as a platform admin (whose role may be null).
 * @throws AppError `not_found`
 */
export async function reach(
  sql: Sql,
  caller: UserCaller,
  id: TenantId,
): Promise<{ readonly tenant: TenantFacts; readonly role: Role | null }> {
  const memberships = await directoryStore(sql).memberships(caller.user.id);
  const own = memberships.find(({ tenant }) => tenant.id === id);
  if (own !== undefined) return own;
  // Tests break this (mutant: tenant-stranger): a tenant is visible to its members and to platform admins only.
  const tenant = orNotFound(
    caller.isPlatformAdmin ? await withDatabaseDeadline(findTenant(sql, id)) : undefined,
  );
  return { tenant, role: null };
}

/** @throws AppError `not_found` */
export async function requireTenant(tx: TransactionSql, id: TenantId): Promise<TenantFacts> {
  return orNotFound(await findTenant(tx, id));
}

/** Which tenant a call is about, and who makes the call. */
export type TenantCall = {
  readonly caller: UserCaller;
  readonly id: TenantId;
  readonly request: RequestFacts;
};

/**
 * Runs one change that only platform admins may make.
 * @param work gets the tenant as it was read before the lock.
 * @throws AppError `not_found`, `insufficient_role`; any error of `work`.
 */
export async function changeAsAdmin<T>(
  deps: AdminDeps,
  { caller, id, request }: TenantCall,
  work: (change: Change, before: TenantFacts) => Promise<T>,
): Promise<T> {
  const { tenant: before } = await reach(deps.sql, caller, id);
  assertPlatformAdmin(caller);
  return changeTenant(deps, adminScope(id, caller, request), (change) => work(change, before));
}

/** @throws AppError `managed_by_cluster` */
export function assertUnmanaged({ tenant }: Change): void {
  if (tenant.isManaged) throw new AppError('managed_by_cluster');
}
