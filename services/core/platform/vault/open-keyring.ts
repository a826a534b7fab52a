import type { Keyring, KeyringConfig } from './keyring.ts';
import { openLocalKeyring } from './local-keyring.ts';
import { openVaultKeyring, type VaultKeyringOptions } from './vault-keyring.ts';

/** The keyring that the configuration names. Give each consumer the narrower type it needs. */
export function openKeyring(
  config: KeyringConfig,
  options: Omit<VaultKeyringOptions, 'config'>,
): Promise<Keyring> | Keyring {
  return config.kind === 'local' ? openLocalKeyring(config.dir) : openVaultKeyring({ config, ...options });
}
