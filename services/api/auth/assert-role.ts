import { AppError } from '#core/domain/fault/app-error.ts';
import { includesRole, type Role } from '#core/domain/tenant/role.ts';

/** @throws AppError `insufficient_role` */
export function assertRole(held: Role, needed: Role): void {
  if (!includesRole(held, needed)) throw insufficientRole(needed);
}

export function insufficientRole(needed: Role | 'platform admin'): AppError {
  return new AppError('insufficient_role', { message: `Role '${needed}' is required` });
}
