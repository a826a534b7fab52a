import { AppError, limitReached, notFound } from '#core/domain/app-error.ts';
import type { AuditFacts, AuditTrail } from '#core/domain/audit-entry.ts';
import type { TenantId, UserId } from '#core/domain/ids.ts';
import { includesRole, type Role } from '#core/domain/role.ts';
import type { Subkeys } from '#core/domain/subkeys.ts';
import type { IsBlockedHost } from '#core/domain/tenant-host.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { afterCommit } from '#core/store/after-commit.ts';
import { recordAudit, type AuditDetails, type AuditOrigin } from '#core/store/audit-log.ts';
import { findRole, lockRole } from '#core/store/members.ts';
import { lockTenant, type LockedTenant } from '#core/store/tenants.ts';
import { withTenant } from '#core/store/tenant-scope.ts';
import type { MemberCaller, UserCaller } from '../auth/auth.ts';
import type { Cursors } from '../http/cursor.ts';
import type { ReadTenant } from '../http/reads.ts';
import { inSlot, type SharedSlots } from '../http/shared-slots.ts';
import { createOnce, type Created, type CreateResult, type IdempotencyClaim } from '../http/idempotency.ts';
import type { PublishNotice } from '#core/domain/notice.ts';
import type { RequestFacts } from '../http/routes-kit.ts';
import type { ReceiptUrlParts } from './provider-accounts/account-view.ts';

/** Dependencies of the admin routes. */
export type AdminDeps = {
  /** The connections for changes. */
  readonly sql: Sql;
  /** A share of them: while changes of one tenant wait for each other, others find a connection. */
  readonly slots: SharedSlots;
  /** Runs the reads of list routes. */
  readonly read: ReadTenant;
  readonly keyring: KeyEncrypter;
  readonly cursors: Cursors;
  readonly subkeys: Subkeys;
  readonly receiptUrls: ReceiptUrlParts;
  readonly notify: PublishNotice;
  readonly audit: AuditTrail;
  readonly isBlockedHost: IsBlockedHost;
  /** Whether any signed-in user may create a tenant; otherwise only platform admins may. */
  readonly selfServeTenants: boolean;
  /** Maximum number of tenants owned or created by a user who is not a platform admin. */
  readonly tenantsPerUserMax: number;
};

/**
 * One change of a tenant's settings: its transaction, the tenant as locked in it, and the function that writes audit
 * entries.
 */
export type Change = {
  readonly tx: TransactionSql;
  readonly tenant: LockedTenant;
  /** The role of the member who makes the change, as it is now; null for others. */
  readonly role: Role | null;
  readonly audit: Audit;
};

/**
 * @param target The id of the changed object.
 * @param facts What a replay after a restore needs in addition.
 * @param details What people want to read about the change.
 */
type Audit = (action: string, target: string, facts?: AuditFacts, details?: AuditDetails) => Promise<void>;

/** Dependencies that write changes and publish their audit entries after the commit. */
type Changing = Pick<AdminDeps, 'sql' | 'slots' | 'audit'>;

type Scope = {
  readonly tenantId: TenantId;
  readonly origin: AuditOrigin;
  /** The member who makes the change, with the role it needs; null for a platform admin or a recipient. */
  readonly by: { readonly userId: UserId; readonly role: Role } | null;
};

export function originOf(caller: UserCaller | MemberCaller, request: RequestFacts): AuditOrigin {
  return { actor: caller.user.id, ip: request.ip, requestId: request.id, appName: request.appName };
}

export function scopeOf(caller: MemberCaller, request: RequestFacts): Scope {
  const by = { userId: caller.user.id, role: request.role ?? caller.role };
  return { tenantId: caller.tenant.id, origin: originOf(caller, request), by };
}

/**
 * Runs a change of one tenant. Changes of the same tenant are serialized, so counts against limits and last-owner checks
 * hold.
 */
export function changeTenant<T>(
  { sql, slots, audit }: Changing,
  scope: Scope,
  work: (change: Change) => Promise<T>,
): Promise<T> {
  return inSlot(slots, scope.tenantId, () =>
    withTenant(sql, scope.tenantId, (tx) => changing({ tx, trail: audit }, scope, work)),
  );
}

/** Runs a create within a tenant, once per idempotency key. */
export function createInTenant<Body>(
  { sql, slots, audit }: Changing,
  scope: Scope,
  claim: IdempotencyClaim | null,
  create: (change: Change) => Promise<Created<Body>>,
  restore?: (stored: Body, nonce: Uint8Array) => Body,
): Promise<CreateResult<Body>> {
  return inSlot(slots, scope.tenantId, () =>
    createOnce<Body>(sql, {
      tenantId: scope.tenantId,
      claim,
      create: (tx) => changing({ tx, trail: audit }, scope, create),
      ...(restore === undefined ? {} : { restore }),
    }),
  );
}

type Telling = { readonly tx: TransactionSql; readonly trail: AuditTrail };

async function changing<T>(telling: Telling, scope: Scope, work: (change: Change) => Promise<T>): Promise<T> {
  const tenant = await lockTenant(scope.tenantId, telling.tx);
  if (tenant === undefined) throw notFound();
  const role = scope.by === null ? null : await roleOf(scope.tenantId, telling.tx, scope.by);
  return work({ tx: telling.tx, tenant, role, audit: auditTo(telling, scope) });
}

/**
 * Returns the role that the member has now: the caller was admitted by a copy, and may have waited since. Removals and changes of
 * roles lock the tenant, so none is under way while the transaction holds that lock.
 * @param find `lockRole` for a change without that lock.
 * @throws AppError `not_found`, `insufficient_role`
 */
async function roleOf(
  tenantId: TenantId,
  tx: TransactionSql,
  { userId, role }: NonNullable<Scope['by']>,
  find = findRole,
): Promise<Role> {
  const held = await find(tenantId, tx, userId);
  if (held === undefined) throw notFound();
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
  await roleOf(tenant.id, tx, { userId: user.id, role });
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
  await roleOf(tenant.id, tx, { userId: user.id, role: request.role ?? role }, lockRole);
}

/** Writes audit entries in the transaction and publishes them after the commit. */
export function auditTo({ tx, trail }: Telling, { tenantId, origin }: Omit<Scope, 'by'>): Audit {
  return async (action, target, facts = {}, details) => {
    const entry = await recordAudit(tenantId, tx, origin, { action, target, facts }, details);
    afterCommit(tx, () => trail(entry));
  };
}

class NothingStored extends Error {
  override readonly name = 'NothingStored';
}

/** Looks up stored answers, in turns, because a look-up waits for a call with the same key that is under way. */
export type Replays = Pick<AdminDeps, 'sql' | 'slots'>;

/**
 * Returns the stored answer of an earlier call with the same key. Called before work that a replay must neither wait for
 * nor repeat, such as a call to Vault. Null when there is none.
 * @param of the tenant of the call; for a call that creates one, the user whose turns it takes.
 * @throws AppError `idempotency_mismatch`
 */
export async function earlierAnswer<Body>(
  { sql, slots }: Replays,
  of: TenantId | { readonly creator: string },
  claim: IdempotencyClaim | null,
  restore?: (stored: Body, nonce: Uint8Array) => Body,
): Promise<CreateResult<Body> | null> {
  if (claim === null) return null;
  const isTenant = typeof of === 'string';
  try {
    return await inSlot(slots, isTenant ? of : of.creator, () =>
      createOnce<Body>(sql, {
        tenantId: isTenant ? of : null,
        claim,
        create: () => Promise.reject(new NothingStored()),
        ...(restore === undefined ? {} : { restore }),
      }),
    );
  } catch (error) {
    if (error instanceof NothingStored) return null;
    throw error;
  }
}

/** @throws AppError `tenant_suspended`: the caller's cached tenant may predate its suspension or deletion. */
export function assertActive(tenant: LockedTenant): void {
  if (tenant.status !== 'active') throw new AppError('tenant_suspended');
}

export function insufficientRole(needed: Role | 'platform admin'): AppError {
  return new AppError('insufficient_role', { message: `Role '${needed}' is required` });
}

export function assertRole(held: Role, needed: Role): void {
  if (!includesRole(held, needed)) throw insufficientRole(needed);
}

/** @throws AppError `plan_limit_reached` */
export function assertBelow(count: number, limit: number, name: string): void {
  if (count < limit) return;
  throw limitReached('plan_limit_reached', { name, value: limit });
}

export function isoOrNull(time: Date | null): string | null {
  return time === null ? null : time.toISOString();
}
