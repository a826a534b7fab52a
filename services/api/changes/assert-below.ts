import { limitReached } from '#core/domain/fault/app-error.ts';

/** @throws AppError `plan_limit_reached` */
export function assertBelow(count: number, limit: number, name: string): void {
  if (count < limit) return;
  throw limitReached('plan_limit_reached', { name, value: limit });
}
