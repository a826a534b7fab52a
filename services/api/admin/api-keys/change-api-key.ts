import { AppError, orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { SCOPES, type Scope } from '#core/domain/tenant/role.ts';
import { findApiKey, type ApiKey as ApiKeyRecord } from '#core/store/tenants/api-keys.ts';
import type { Change } from '../../changes/change-tenant.ts';
import type { MemberCaller } from '../../auth/auth.ts';

export const apiKeyTag = 'API keys';
export const apiKeyAuth = { kind: 'bearer', role: 'admin' } as const;

/**
 * Checks an expiry when the key is written, so that the replay of an old request is not refused for a time that has passed since.
 */
export function futureExpiry(expiresAt: string | null): Date | null {
  if (expiresAt === null) return null;
  const time = new Date(expiresAt);
  if (time.getTime() > Date.now()) return time;
  throw validationFailed({ field: 'expiresAt', rule: 'min', message: 'Must lie in the future' });
}

/** Returns the scopes in the order of the catalog. */
export function inOrder(scopes: readonly Scope[]): Scope[] {
  return SCOPES.filter((scope) => scopes.includes(scope));
}

export async function requireApiKey(
  caller: MemberCaller,
  { tx }: Change,
  id: ApiKeyId,
): Promise<ApiKeyRecord> {
  return orNotFound(await findApiKey(caller.tenant.id, tx, id));
}

/** @throws AppError `invalid_state` for a key that is revoked for good. */
export function assertInUse({ status }: ApiKeyRecord): void {
  if (status !== 'revoked' && status !== 'expired') return;
  throw new AppError('invalid_state', { message: `API key is ${status}` });
}
