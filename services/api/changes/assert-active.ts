import { notActive } from '#core/domain/tenant/not-active.ts';
import type { LockedTenant } from '#core/store/tenants/tenants.ts';

/** @throws AppError `tenant_suspended`: the caller's cached tenant may predate its suspension or deletion. */
export function assertActive(tenant: LockedTenant): void {
  if (tenant.status !== 'active') throw notActive(tenant.status);
}
