import { AppError, validationFailed } from '#core/domain/app-error.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/ids.ts';
import type { KeyEncrypter } from '#core/platform/keyring.ts';
import type { FieldFault } from '#providers/provider.ts';

/** What a provider account's secret is bound to, besides its tenant and its id. The worker decrypts under the same. */
const PURPOSE = 'provider-secret';

/** Never call this within a transaction: Vault may take its time. @throws KeyringError */
export function encryptSecrets(
  keyring: KeyEncrypter,
  tenantId: TenantId,
  id: ProviderAccountId,
  secrets: Record<string, unknown>,
): Promise<string> {
  return keyring.encrypt({ tenantId, subject: id, purpose: PURPOSE }, Buffer.from(JSON.stringify(secrets)));
}

/** The answer to settings that break a provider's rules. Details name fields and rules, never values. */
export function settingsRejected(details: readonly FieldFault[]): AppError {
  const missing = details.find(({ rule }) => rule === 'required');
  if (missing === undefined) return validationFailed(...details);
  return new AppError('missing_field', { message: `Field '${missing.field}' is required`, details });
}
