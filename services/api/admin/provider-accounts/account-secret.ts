import { isDeepStrictEqual } from 'node:util';
import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import { accountSecretBinding } from '#core/domain/storage/binding.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import type { IsBlockedHost } from '#core/domain/account/tenant-host.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import type { ProviderAccount } from '#core/store/accounts/provider-accounts.ts';
import { misplacedSecrets } from '#providers/config-keys.ts';
import type { AnyProvider, FieldFault } from '#providers/provider.ts';
import { parsePublicConfig } from '#providers/registry.ts';
import { secretRouteChanges } from '#providers/secret-route.ts';
import { tenantHostFault } from '#providers/tenant-host.ts';

/**
 * Encrypts an account's secrets. The tenant's key is created with its first secret, so a tenant whose creation failed leaves no
 * key behind. Never call this within a transaction: Vault may be slow.
 * @throws KeyringError
 */
export async function encryptSecrets(
  keyring: KeyEncrypter,
  tenantId: TenantId,
  id: ProviderAccountId,
  secrets: Record<string, unknown>,
): Promise<string> {
  await keyring.ensureKey(tenantId);
  return keyring.encrypt(accountSecretBinding(tenantId, id), Buffer.from(JSON.stringify(secrets)));
}

/** Returns the error for settings that break a provider's rules. Its details name fields and rules, never values. */
export function settingsRejected(details: readonly FieldFault[]): AppError {
  const missing = details.find(({ rule }) => rule === 'required');
  if (missing === undefined) return validationFailed(...details);
  return new AppError('missing_field', { message: `Field '${missing.field}' is required`, details });
}

/** @throws AppError `url_blocked` when the settings name an address that no connection may go to. */
export function assertHostAllowed(
  provider: AnyProvider,
  config: Record<string, unknown>,
  isBlockedHost: IsBlockedHost,
): void {
  const fault = tenantHostFault(provider, config, isBlockedHost);
  if (fault !== undefined) throw new AppError('url_blocked', { details: [fault] });
}

/** @throws AppError when the settings, which every member of the tenant may see, contain a secret. */
export function assertNoSecret(provider: AnyProvider, publicConfig: Record<string, unknown>): void {
  const faults = misplacedSecrets(provider, publicConfig);
  if (faults.length > 0) throw validationFailed(...faults);
}

/**
 * Prevents a stored secret from being sent to another place or in another way than it was entered for.
 * @throws AppError `missing_field`, naming the settings that require `secretConfig` in the same call.
 */
export function assertSecretStays(provider: AnyProvider, before: unknown, after: unknown): void {
  const changed = secretRouteChanges(provider, before, after);
  if (changed.length === 0) return;
  const details = changed.map((field) => ({
    field,
    rule: 'secret_route',
    message: 'Decides where or how the secret travels: give secretConfig in the same call',
  }));
  const missing = {
    field: 'secretConfig',
    rule: 'required',
    message: `Required with a change of ${changed.join(', ')}`,
  };
  const message = `Field 'secretConfig' is required with a change of ${changed.join(', ')}`;
  throw new AppError('missing_field', { message, details: [missing, ...details] });
}

/** Returns whether the settings differ in meaning, ignoring spelling and unknown keys. Both are valid, or were once. */
export function isOtherConfig(provider: AnyProvider, before: unknown, after: unknown): boolean {
  return !isDeepStrictEqual(parsePublicConfig(provider, before), parsePublicConfig(provider, after));
}

/**
 * Settings and secret are validated together before the transaction, with a call to Vault in between. Neither may be stored
 * next to a half that another request wrote meanwhile.
 * @throws AppError `invalid_state`
 */
export function assertUnchanged(judged: ProviderAccount, current: ProviderAccount): void {
  // Tests break this (mutant: settings-version): settings and secret are stored exactly as they were validated together.
  if (judged.version === current.version) return;
  throw new AppError('invalid_state', { message: 'Provider account was changed meanwhile' });
}
