import { AppError, validationFailed } from '#core/domain/app-error.ts';
import { providerSecretBinding } from '#core/domain/binding.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/ids.ts';
import type { KeyEncrypter } from '#core/platform/keyring.ts';
import type { FieldFault } from '#providers/provider.ts';

/**
 * The tenant's key is made with its first secret: a tenant that never came to be leaves none behind.
 * Never call this within a transaction: Vault may take its time. @throws KeyringError
 */
export async function encryptSecrets(
  keyring: KeyEncrypter,
  tenantId: TenantId,
  id: ProviderAccountId,
  secrets: Record<string, unknown>,
): Promise<string> {
  await keyring.ensureKey(tenantId);
  return keyring.encrypt(providerSecretBinding(tenantId, id), Buffer.from(JSON.stringify(secrets)));
}

/** The answer to settings that break a provider's rules. Details name fields and rules, never values. */
export function settingsRejected(details: readonly FieldFault[]): AppError {
  const missing = details.find(({ rule }) => rule === 'required');
  if (missing === undefined) return validationFailed(...details);
  return new AppError('missing_field', { message: `Field '${missing.field}' is required`, details });
}
