import { generateKeyPairSync } from 'node:crypto';
import { webhookKeyBinding } from '#core/domain/storage/binding.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { hasWebhookKey, insertWebhookKey } from '#core/store/webhooks/webhook-keys.ts';
import type { WebhookDeps } from './webhook-deps.ts';

/** A new Ed25519 key that is not stored yet. */
export type NewSigningKey = { readonly id: string; readonly publicKey: string; readonly ciphertext: string };

/** Creates a signing key. Never call this within a transaction: Vault may be slow. @throws KeyringError */
export async function newSigningKey(keyring: KeyEncrypter, tenantId: TenantId): Promise<NewSigningKey> {
  const id = newId<string>();
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const { x = '' } = publicKey.export({ format: 'jwk' });
  const secret = privateKey.export({ format: 'der', type: 'pkcs8' });
  await keyring.ensureKey(tenantId);
  return { id, publicKey: x, ciphertext: await keyring.encrypt(webhookKeyBinding(tenantId, id), secret) };
}

/**
 * Creates the tenant's first key if the signatures need one and there is none.
 * @returns A function that stores it in the transaction of the change that needs it, unless another request stored one
 * first.
 */
export async function firstSigningKey(
  { sql, keyring }: Pick<WebhookDeps, 'sql' | 'keyring'>,
  tenantId: TenantId,
  signatures: readonly string[] | undefined,
): Promise<(tx: TransactionSql) => Promise<void>> {
  if (signatures?.includes('v1a') !== true) return async () => {};
  if (await withTenant(sql, tenantId, (tx) => hasWebhookKey(tenantId, tx))) return async () => {};
  const key = await newSigningKey(keyring, tenantId);
  return async (tx) => {
    if (!(await hasWebhookKey(tenantId, tx))) await insertWebhookKey(tenantId, tx, key, 0);
  };
}
