import { AppError } from '../fault/app-error.ts';
import type { TenantState } from './tenant-state.ts';

/**
 * Returns the error for a call that only an active tenant may make. Clients branch on its code, which is the same for every other
 * state; its text says whether the tenant can come back.
 */
export function notActive(status: TenantState): AppError {
  const isLeaving = status === 'deleting' || status === 'deleted';
  return new AppError('tenant_suspended', isLeaving ? { message: 'Tenant is being deleted' } : {});
}

/** Returns the error for a change that a tenant no longer takes. */
export function beingDeleted(): AppError {
  return new AppError('invalid_state', { message: 'Tenant is being deleted, which cannot be undone' });
}
