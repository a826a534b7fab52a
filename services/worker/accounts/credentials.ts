import { accountSecretBinding } from '#core/domain/storage/binding.ts';
import { createSecretCache, readJson, type SecretCache, type SecretCacheOptions } from '../secret-cache.ts';

/** Cache of accounts' secrets, as parsed JSON; the provider's own schema gives them a type. */
export type Credentials = SecretCache<unknown>;

export function createCredentials(
  options: Omit<SecretCacheOptions<unknown>, 'bindingOf' | 'read'>,
): Credentials {
  return createSecretCache({ ...options, bindingOf: accountSecretBinding, read: readJson });
}
