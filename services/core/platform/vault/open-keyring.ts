import type { Keyring, KeyringConfig } from './keyring.ts';
import { openLocalKeyring } from './local-keyring.ts';
import { openVaultKeyring, type VaultKeyringOptions } from './vault-keyring.ts';

/**
 * Opens the configured keyring. Give each consumer the narrowest type that it needs. A local keyring needs no token, so it reports one
 * that never expires: a process without a token is one that cannot log in.
 */
export function openKeyring(
  config: KeyringConfig,
  options: Omit<VaultKeyringOptions, 'config'>,
): Promise<Keyring> | Keyring {
  if (config.kind !== 'local') return openVaultKeyring({ config, ...options });
  options.onTokenExpiry?.(Infinity);
  return openLocalKeyring(config.dir);
}
