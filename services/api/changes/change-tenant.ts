import { orNotFound } from '#core/domain/fault/app-error.ts';
import type { AuditAction } from '#core/domain/tenant/audit-action.ts';
import type { AuditFacts, AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { afterCommit } from '#core/store/query/after-commit.ts';
import { recordAudit, type AuditDetails } from '#core/store/tenants/audit-log.ts';
import { lockTenant, type LockedTenant } from '#core/store/tenants/tenants.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { assertMember } from '../auth/assert-member.ts';
import {
  createOnce,
  type Created,
  type CreateResult,
  type IdempotencyClaim,
} from '../http/routes/idempotency.ts';
import { inSlot, type SharedSlots } from '../http/admission/shared-slots.ts';
import type { ChangeScope } from './change-scope.ts';

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
type Audit = (
  action: AuditAction,
  target: string,
  facts?: AuditFacts,
  details?: AuditDetails,
) => Promise<void>;

/** Dependencies that write changes and publish their audit entries after the commit. */
type Changing = {
  /** The connections for changes. */
  readonly sql: Sql;
  /** A share of them: while changes of one tenant wait for each other, others find a connection. */
  readonly slots: SharedSlots;
  readonly audit: AuditTrail;
};

/**
 * Runs a change of one tenant. Changes of the same tenant are serialized, so counts against limits and last-owner checks
 * hold.
 */
export function changeTenant<T>(
  { sql, slots, audit }: Changing,
  scope: ChangeScope,
  work: (change: Change) => Promise<T>,
): Promise<T> {
  return inSlot(slots, scope.tenantId, () =>
    withTenant(sql, scope.tenantId, (tx) => changing({ tx, trail: audit }, scope, work)),
  );
}

/** Runs a create within a tenant, once per idempotency key. */
export function createInTenant<Body>(
  { sql, slots, audit }: Changing,
  scope: ChangeScope,
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

async function changing<T>(
  telling: Telling,
  scope: ChangeScope,
  work: (change: Change) => Promise<T>,
): Promise<T> {
  const tenant = orNotFound(await lockTenant(scope.tenantId, telling.tx));
  const role = scope.by === null ? null : await assertMember(telling.tx, scope.tenantId, scope.by);
  return work({ tx: telling.tx, tenant, role, audit: auditTo(telling, scope) });
}

/** Writes audit entries in the transaction and publishes them after the commit. */
export function auditTo({ tx, trail }: Telling, { tenantId, origin }: Omit<ChangeScope, 'by'>): Audit {
  return async (action, target, facts = {}, details) => {
    const entry = await recordAudit(tenantId, tx, origin, { action, target, facts }, details);
    afterCommit(tx, () => trail(entry));
  };
}
