import { secret } from '#core/domain/storage/secret.ts';
import type { VaultService } from '../../deploy/vault/policies.ts';
import { vaultVariables, type ServiceVariables } from '../../deploy/vault/service-variables.ts';
import { configureVault, type AppRoleCredentials } from '../../deploy/vault/setup.ts';
import { testVault, type TestVault } from './servers.ts';

export type VaultLogins = {
  readonly vault: TestVault;
  readonly logins: Readonly<Record<VaultService, AppRoleCredentials>>;
  /** The login of a service process, as environment variables. */
  readonly variables: ServiceVariables;
};

/** Opens the shared Vault with the shipped policies, and a mount and roles of the caller's own. */
export async function openVaultLogins(stack: AsyncDisposableStack): Promise<VaultLogins> {
  const vault = stack.use(await testVault());
  const { address, rootToken, mount } = vault;
  const logins = await configureVault({
    address,
    rootToken,
    transitMount: mount,
    namePrefix: `${mount}-`,
  });
  return { vault, logins, variables: vaultVariables(vault, logins) };
}

/** Returns the Vault configuration of a service in this process. */
export function vaultConfigAs(service: VaultService, { vault, logins }: VaultLogins) {
  const { roleId, secretId } = logins[service];
  return {
    address: vault.address,
    transitMount: vault.mount,
    keyPrefix: 'despatch-',
    auth: { method: 'approle', mount: 'approle', roleId, secretId: secret(secretId) },
  } as const;
}
