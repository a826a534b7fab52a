import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { withDatabaseDeadline } from '../query/tenant-scope.ts';

/** The public part of a tenant's Ed25519 key. */
export type WebhookKey = {
  readonly id: string;
  /** 32 bytes, base64url. */
  readonly publicKey: string;
};

/** How long public keys may be cached. */
export const KEYS_FRESH_SECONDS = 60;
/** Time between publishing a new key and signing with it: no cached list is older, even behind several caches. */
const SHOWN_BEFORE_SECONDS = 2 * KEYS_FRESH_SECONDS;
/** Maximum number of keys shown, so that a tenant that makes a key each minute does not make every answer long. */
const SHOWN_MAX = 100;

/**
 * Returns, for each tenant that has keys, the key that signs first; then, newest first, keys that will sign later and keys whose
 * signatures may still be verified.
 */
export async function loadWebhookKeys(
  sql: Sql,
  tenantIds: readonly string[],
): Promise<Map<string, readonly WebhookKey[]>> {
  const rows = await withDatabaseDeadline(
    sql<{ tenant_id: string; id: string; public_key: string }[]>`
      select tenant_id, id, public_key from public_webhook_keys(${[...tenantIds]}::uuid[], ${SHOWN_MAX})`,
  );
  const keys = rows.map(({ id, public_key: publicKey, ...of }) => ({ ...of, id, publicKey }));
  return Map.groupBy(keys, (key) => key.tenant_id);
}

export async function hasWebhookKey(tenantId: TenantId, tx: TransactionSql): Promise<boolean> {
  const rows = await tx`select from webhook_keys where tenant_id = ${tenantId} limit 1`;
  return rows.length > 0;
}

/**
 * Adds a key. A tenant's first key signs at once. Any other one is published first, and the current key signs until then; the
 * current public key is shown for `graceSeconds` after that, and no older key for longer. With 0 the older keys are no longer
 * trusted, and the new one signs at once.
 */
export async function insertWebhookKey(
  tenantId: TenantId,
  tx: TransactionSql,
  key: { readonly id: string; readonly publicKey: string; readonly ciphertext: string },
  graceSeconds: number,
): Promise<void> {
  const waitSeconds = graceSeconds === 0 ? 0 : SHOWN_BEFORE_SECONDS;
  await tx`
    with former as (
      update webhook_keys set ${waitSeconds === 0 ? tx`ciphertext = null,` : tx``}
        shown_until = least(shown_until, now() + make_interval(secs => ${waitSeconds + graceSeconds}::integer))
      where tenant_id = ${tenantId}
      returning id
    )
    insert into webhook_keys (id, tenant_id, public_key, ciphertext, signs_from)
    values (${key.id}, ${tenantId}, ${key.publicKey}, ${key.ciphertext},
      clock_timestamp() + make_interval(secs => case when exists (select from former) then ${waitSeconds}::integer else 0 end))`;
}

/**
 * Raises the versions of the tenant's endpoints with `v1a` signatures, so that workers return the events that they have claimed with
 * a former key, and claim them again. Locks the rows in the order of their ids, as SQL `complete_deliveries` does.
 */
export async function invalidateClaimedSignatures(tenantId: TenantId, tx: TransactionSql): Promise<void> {
  await tx`
    update webhook_endpoints set version = version + 1 where tenant_id = ${tenantId} and id = any (array(
      select w.id from webhook_endpoints w
      where w.tenant_id = ${tenantId} and w.deleted_at is null and 'v1a' = any (w.signatures)
      order by w.id for no key update))`;
}
