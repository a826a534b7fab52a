import { isDeepStrictEqual } from 'node:util';
import { AppError, validationFailed } from '#core/domain/app-error.ts';
import { accountSecretBinding } from '#core/domain/binding.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/ids.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import type { ProviderAccount } from '#core/store/provider-accounts.ts';
import { misplacedSecrets } from '#providers/config-keys.ts';
import type { AnyProvider, FieldFault } from '#providers/provider.ts';
import { parsePublicConfig } from '#providers/registry.ts';
import { secretRouteChanges } from '#providers/secret-route.ts';

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
  return keyring.encrypt(accountSecretBinding(tenantId, id), Buffer.from(JSON.stringify(secrets)));
}

/** The answer to settings that break a provider's rules. Details name fields and rules, never values. */
export function settingsRejected(details: readonly FieldFault[]): AppError {
  const missing = details.find(({ rule }) => rule === 'required');
  if (missing === undefined) return validationFailed(...details);
  return new AppError('missing_field', { message: `Field '${missing.field}' is required`, details });
}

/** @throws AppError where a secret stands among the settings, which everybody of the tenant may see. */
export function assertNoSecret(provider: AnyProvider, publicConfig: Record<string, unknown>): void {
  const faults = misplacedSecrets(provider, publicConfig);
  if (faults.length > 0) throw validationFailed(...faults);
}

/**
 * A stored secret goes to no other place, and no other way, than it was given for.
 * @throws AppError `missing_field` that names the settings which need `secretConfig` in the same call.
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

/** Whether the settings say anything else, spelling and keys that nobody reads apart. Both are valid, or were once. */
export function isOtherConfig(provider: AnyProvider, before: unknown, after: unknown): boolean {
  return !isDeepStrictEqual(parsePublicConfig(provider, before), parsePublicConfig(provider, after));
}

/**
 * Settings and secret are judged together before the transaction, with Vault's answer in between: neither may be stored
 * beside a half that came meanwhile.
 * @throws AppError `invalid_state`
 */
export function assertUnchanged(judged: ProviderAccount, current: ProviderAccount): void {
  // Tests break this (mutant: settings-version): settings and secret are stored as they were judged together.
  if (judged.version === current.version) return;
  throw new AppError('invalid_state', { message: 'Provider account was changed meanwhile' });
}
