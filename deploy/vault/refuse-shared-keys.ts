import type { VaultAdmin } from './vault-admin.ts';

export type KeyRights = { readonly transitMount: string; readonly keyPrefix: string };

/** A path of a policy that grants the use of keys whose names begin alike. */
const GRANT = /"([^"\s]+)\/(?:encrypt|decrypt|rewrap|keys)\/([^"/\s]+)\*"/g;

/**
 * Checks that no other policy grants keys with this prefix. `despatch-` also matches the keys of `despatch-prod-`, and so a
 * worker of one installation could decrypt the secrets of another. Policies that the token cannot read are not checked.
 * @param own names of the policies that are about to be written.
 * @throws Error if another policy has a prefix that begins this one, or is begun by it, on the same mount.
 */
export async function refuseSharedKeys(
  vault: VaultAdmin,
  { transitMount, keyPrefix }: KeyRights,
  own: readonly string[],
): Promise<void> {
  const { body } = await vault.call('GET', 'sys/policies/acl?list=true');
  const names = (body as { data?: { keys?: string[] } } | null)?.data?.keys ?? [];
  for (const name of names.filter((one) => !own.includes(one))) {
    const answer = await vault.call('GET', `sys/policies/acl/${name}`);
    const text = (answer.body as { data?: { policy?: string } } | null)?.data?.policy ?? '';
    for (const [, mount, prefix = ''] of text.matchAll(GRANT)) {
      if (mount !== transitMount || !(prefix.startsWith(keyPrefix) || keyPrefix.startsWith(prefix))) continue;
      throw new Error(
        `Policy ${name} grants keys of ${transitMount} that begin with "${prefix}", and so shares keys with "${keyPrefix}". ` +
          'Choose a key prefix that neither begins the other nor is begun by it, or another transit mount; ' +
          'delete the policy if nothing uses it',
      );
    }
  }
}
