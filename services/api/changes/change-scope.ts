import type { TenantId } from '#core/domain/storage/ids.ts';
import type { AuditOrigin } from '#core/store/tenants/audit-log.ts';
import type { NeededRole } from '../auth/assert-member.ts';
import type { MemberCaller, UserCaller } from '../auth/auth.ts';
import type { RequestFacts } from '../http/routes/route.ts';

/** Which tenant a change is of, and who makes it. */
export type ChangeScope = {
  readonly tenantId: TenantId;
  readonly origin: AuditOrigin;
  /** The member who makes the change, with the role it needs; null for a platform admin or a recipient. */
  readonly by: NeededRole | null;
};

export function scopeOf(caller: MemberCaller, request: RequestFacts): ChangeScope {
  const by = { userId: caller.user.id, role: request.role ?? caller.role };
  return { tenantId: caller.tenant.id, origin: originOf(caller, request), by };
}

/** Returns the scope of a change that a platform admin makes, who need not be a member. */
export function adminScope(tenantId: TenantId, caller: UserCaller, request: RequestFacts): ChangeScope {
  return { tenantId, origin: originOf(caller, request), by: null };
}

export function originOf(caller: UserCaller | MemberCaller, request: RequestFacts): AuditOrigin {
  return { actor: caller.user.id, ip: request.ip, requestId: request.id, appName: request.appName };
}
