import { readFile } from 'node:fs/promises';
import { refuseSharedKeys } from './refuse-shared-keys.ts';
import type { VaultAdmin } from './vault-admin.ts';

export const VAULT_SERVICES = ['api', 'worker', 'controller'] as const;
export type VaultService = (typeof VAULT_SERVICES)[number];

export type PolicyNames = {
  /** Mount path of the transit engine. Default `transit`. */
  readonly transitMount?: string | undefined;
  /** Name prefix of the tenants' keys, as in `VAULT_KEY_PREFIX`. Default `despatch-`. */
  readonly keyPrefix?: string | undefined;
  /** Policies and roles are named by this prefix plus the service. Default `despatch-`. */
  readonly namePrefix?: string | undefined;
};

/**
 * Mounts transit and writes one policy per service. Idempotent.
 * @throws when Vault refuses a step, or another policy grants keys that would be this installation's.
 */
export async function writePolicies(vault: VaultAdmin, names: PolicyNames): Promise<void> {
  const { transitMount = 'transit', keyPrefix = 'despatch-', namePrefix = 'despatch-' } = names;
  const own = VAULT_SERVICES.map((service) => `${namePrefix}${service}`);
  await refuseSharedKeys(vault, { transitMount, keyPrefix }, own);
  await vault.mount(`sys/mounts/${transitMount}`, 'transit');
  for (const service of VAULT_SERVICES) {
    const policy = await policyText(service, names);
    await vault.done('PUT', `sys/policies/acl/${namePrefix}${service}`, { policy });
  }
}

/** Returns the shipped policy, adapted to another mount or prefix. */
async function policyText(service: VaultService, names: PolicyNames): Promise<string> {
  const { transitMount = 'transit', keyPrefix = 'despatch-' } = names;
  const policy = await readFile(new URL(`${service}.hcl`, import.meta.url), 'utf8');
  return policy
    .replaceAll('path "transit/', `path "${transitMount}/`)
    .replaceAll('/despatch-*"', `/${keyPrefix}*"`);
}
