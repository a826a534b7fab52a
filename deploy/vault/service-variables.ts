import type { VaultService } from './policies.ts';
import type { AppRoleCredentials } from './setup.ts';

export type ServiceVariables = Readonly<Record<VaultService, Readonly<Record<string, string>>>>;

/** Returns the variables with which each service logs in to a Vault that was set up for it. */
export function vaultVariables(
  { address, mount = 'transit' }: { readonly address: string; readonly mount?: string },
  logins: Readonly<Record<VaultService, AppRoleCredentials>>,
): ServiceVariables {
  const of = (service: VaultService): Record<string, string> => ({
    KEYRING: 'vault',
    VAULT_ADDR: address,
    VAULT_TRANSIT_MOUNT: mount,
    VAULT_AUTH_METHOD: 'approle',
    VAULT_ROLE_ID: logins[service].roleId,
    VAULT_SECRET_ID: logins[service].secretId,
  });
  return { api: of('api'), worker: of('worker'), controller: of('controller') };
}
