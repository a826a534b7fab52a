// Prepares a Vault for Despatch: transit, AppRole, one policy and one role per service. Run it with VAULT_ADDR and
// VAULT_TOKEN; it may be run again, and then only issues new secret ids. Writes the credentials to standard output as JSON.
// In a cluster, `setup-kubernetes.ts` does the same for service accounts, which need no secret.
import { VAULT_SERVICES, writePolicies, type PolicyNames, type VaultService } from './policies.ts';
import { createVaultAdmin, type VaultAccess } from './vault-admin.ts';

export type VaultSetup = VaultAccess &
  PolicyNames & {
    /** Mount path of AppRole. Default `approle`. */
    readonly approleMount?: string;
    /** Lifetime of a token before it must be renewed. Default 3,600. */
    readonly tokenTtlSeconds?: number;
    /** Maximum age up to which a token can be renewed. Default 86,400. */
    readonly tokenMaxTtlSeconds?: number;
    readonly tokenType?: 'service' | 'batch';
  };

export type AppRoleCredentials = { readonly roleId: string; readonly secretId: string };

/** Idempotent. @throws when Vault refuses a step, or another installation's policies grant the same keys. */
export async function configureVault(setup: VaultSetup): Promise<Record<VaultService, AppRoleCredentials>> {
  const { approleMount = 'approle', namePrefix = 'despatch-' } = setup;
  const vault = createVaultAdmin(setup);
  await writePolicies(vault, setup);
  await vault.mount(`sys/auth/${approleMount}`, 'approle');
  // By default five wrong secret ids lock a role for a quarter of an hour, whoever sends them: role ids are no secret, so anyone who
  // reaches Vault could keep the services out. A secret id is random and too long to guess, so a lockout protects nothing.
  await vault.done('POST', `sys/auth/${approleMount}/tune`, {
    user_lockout_config: { lockout_disable: true },
  });
  const credentials: Partial<Record<VaultService, AppRoleCredentials>> = {};
  for (const service of VAULT_SERVICES) {
    const role = `auth/${approleMount}/role/${namePrefix}${service}`;
    await vault.done('POST', role, {
      token_policies: [`${namePrefix}${service}`],
      token_ttl: setup.tokenTtlSeconds ?? 3_600,
      token_max_ttl: setup.tokenMaxTtlSeconds ?? 86_400,
      token_type: setup.tokenType ?? 'service',
    });
    const roleId = textAt(await vault.done('GET', `${role}/role-id`), 'role_id');
    const secretId = textAt(await vault.done('POST', `${role}/secret-id`, {}), 'secret_id');
    credentials[service] = { roleId, secretId };
  }
  return credentials as Record<VaultService, AppRoleCredentials>;
}

function textAt(body: unknown, name: string): string {
  const value = (body as { data?: Record<string, unknown> } | null)?.data?.[name];
  if (typeof value !== 'string') throw new Error(`Vault gave no ${name}`);
  return value;
}

if (import.meta.main) {
  const address = process.env['VAULT_ADDR'];
  const rootToken = process.env['VAULT_TOKEN'];
  if (address === undefined || rootToken === undefined) throw new Error('Set VAULT_ADDR and VAULT_TOKEN');
  process.stdout.write(`${JSON.stringify(await configureVault({ address, rootToken }), null, 2)}\n`);
}
