import { AppError } from '#core/domain/fault/app-error.ts';
import { includesRole, type Role } from '#core/domain/tenant/role.ts';
import type { UserCaller } from './auth.ts';

/** @throws AppError `insufficient_role` */
export function assertRole(held: Role, needed: Role): void {
  if (!includesRole(held, needed)) throw insufficientRole(needed);
}

/** @throws AppError `insufficient_role` */
export function assertPlatformAdmin({ isPlatformAdmin }: UserCaller): void {
  if (!isPlatformAdmin) throw insufficientRole('platform admin');
}

export function insufficientRole(needed: Role | 'platform admin'): AppError {
  return new AppError('insufficient_role', { message: `Role '${needed}' is required` });
}
