import type { Keyring, KeyringConfig } from './keyring.ts';
import { openLocalKeyring } from './local-keyring.ts';
import { openVaultKeyring, type VaultKeyringOptions } from './vault-keyring.ts';

/** Opens the configured keyring. Give each consumer the narrowest type that it needs. */
export function openKeyring(
  config: KeyringConfig,
  options: Omit<VaultKeyringOptions, 'config'>,
): Promise<Keyring> | Keyring {
  return config.kind === 'local' ? openLocalKeyring(config.dir) : openVaultKeyring({ config, ...options });
}
