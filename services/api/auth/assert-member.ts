import { orNotFound } from '#core/domain/fault/app-error.ts';
import type { TenantId, UserId } from '#core/domain/storage/ids.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { findRole, lockRole } from '#core/store/tenants/members.ts';
import type { RequestFacts } from '../http/routes/route.ts';
import { assertRole } from './assert-role.ts';
import type { MemberCaller } from './auth.ts';

/** A member and the role that a call needs. */
export type NeededRole = { readonly userId: UserId; readonly role: Role };

/**
 * Checks that the user is a member with the role, and returns the role that the member has now: the caller was admitted by a
 * copy, and may have waited since. Removals and changes of roles lock the tenant, so none is under way while the transaction holds
 * that lock.
 * @param find `lockRole` for a change without that lock.
 * @throws AppError `not_found`, `insufficient_role`
 */
export async function assertMember(
  tx: TransactionSql,
  tenantId: TenantId,
  { userId, role }: NeededRole,
  find = findRole,
): Promise<Role> {
  const held = orNotFound(await find(tenantId, tx, userId));
  assertRole(held, role);
  return held;
}

/**
 * Checks again that the caller is a member with the role, for a read that takes longer than a removed member may go on reading.
 * @throws AppError `not_found`, `insufficient_role`
 */
export async function assertStillMember(
  tx: TransactionSql,
  { tenant, user }: MemberCaller,
  role: Role,
): Promise<void> {
  await assertMember(tx, tenant.id, { userId: user.id, role });
}

/**
 * Checks the same for a change that does not lock the tenant, in its transaction: a removal of the member either comes first, or
 * waits until the transaction has ended.
 * @throws AppError `not_found`, `insufficient_role`
 */
export async function assertMemberUntilCommit(
  tx: TransactionSql,
  { tenant, user, role }: MemberCaller,
  request: Pick<RequestFacts, 'role'>,
): Promise<void> {
  await assertMember(tx, tenant.id, { userId: user.id, role: request.role ?? role }, lockRole);
}
