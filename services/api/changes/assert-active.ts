import { AppError } from '#core/domain/fault/app-error.ts';
import type { LockedTenant } from '#core/store/tenants/tenants.ts';

/** @throws AppError `tenant_suspended`: the caller's cached tenant may predate its suspension or deletion. */
export function assertActive(tenant: LockedTenant): void {
  if (tenant.status !== 'active') throw new AppError('tenant_suspended');
}
