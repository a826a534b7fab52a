import type { TenantId } from '#core/domain/ids.ts';
import { withDeadline, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { DATABASE_DEADLINE_MS } from './tenant-scope.ts';

/** What everybody may know of a tenant's Ed25519 key. */
export type WebhookKey = {
  readonly id: string;
  /** 32 bytes, base64url. */
  readonly publicKey: string;
};

/** Public keys may be remembered for that long. */
export const KEYS_FRESH_SECONDS = 60;
/** From when a new key is shown to when it signs: no copy is older, however many hands it went through. */
const SHOWN_BEFORE_SECONDS = 2 * KEYS_FRESH_SECONDS;
/** More are not shown: a tenant that makes a key each minute does not make the list long for everybody. */
const SHOWN_MAX = 100;

/**
 * Of each tenant that has keys the one that signs first, then the others, the newest first: those that are to sign, and those whose
 * signatures may be checked.
 */
export async function loadWebhookKeys(
  sql: Sql,
  tenantIds: readonly string[],
): Promise<Map<string, readonly WebhookKey[]>> {
  const rows = await withDeadline(
    sql<{ tenant_id: string; id: string; public_key: string }[]>`
      select tenant_id, id, public_key from public_webhook_keys(${[...tenantIds]}::uuid[], ${SHOWN_MAX})`,
    DATABASE_DEADLINE_MS,
  );
  const keys = rows.map(({ id, public_key: publicKey, ...of }) => ({ ...of, id, publicKey }));
  return Map.groupBy(keys, (key) => key.tenant_id);
}

export async function hasWebhookKey(tenantId: TenantId, tx: TransactionSql): Promise<boolean> {
  const rows = await tx`select from webhook_keys where tenant_id = ${tenantId} limit 1`;
  return rows.length > 0;
}

/**
 * The tenant's first key signs at once. Any other one is shown first, and the one before signs until then; its public key is shown
 * for `graceSeconds` more, and so is none of those before it for longer. With 0 nobody is to trust them any more: the new one
 * signs at once.
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
