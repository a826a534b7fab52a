import { LRUCache } from 'lru-cache';
import { webhookSecretBinding } from '#core/domain/storage/binding.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { WebhookKeysOf } from './webhook-receiver.ts';
import type { WorkerView } from './worker-view.ts';

type Row = {
  readonly id: string;
  readonly tenant_id: TenantId;
  readonly url: string;
  readonly secret: string;
  readonly previous_secret: string | null;
  readonly public_keys: readonly string[];
};

/**
 * Returns the receiver's keys of endpoints, which people see only once. Reads them from the worker's data, so that
 * endpoints added later and changed secrets are known too.
 * @param receiverUrl base URL of the receiver; endpoints may use any path below it.
 */
export function webhookKeysOf({ sql, keyring }: WorkerView, receiverUrl: string): WebhookKeysOf {
  const plaintexts = new LRUCache<string, string>({ max: 1_000 });
  const port = new URL(receiverUrl).port;
  const origins = [receiverUrl, `http://localhost:${port}`];

  async function decrypt({ id, tenant_id: tenantId }: Row, ciphertext: string): Promise<string> {
    const known = plaintexts.get(ciphertext);
    if (known !== undefined) return known;
    const bytes = await keyring.decrypt(webhookSecretBinding(tenantId, id), ciphertext);
    const secret = Buffer.from(bytes).toString();
    plaintexts.set(ciphertext, secret);
    return secret;
  }

  return async (path) => {
    const rows = await sql<Row[]>`
      select e.id, e.tenant_id, e.url, e.secret,
        case when e.previous_until > now() then e.previous_secret end as previous_secret,
        array(select k.public_key from webhook_keys k where k.tenant_id = e.tenant_id) as public_keys
      from webhook_endpoints e
      where e.deleted_at is null and exists (select from unnest(${origins}::text[]) origin where starts_with(e.url, origin))`;
    const called = rows.filter(({ url }) => {
      const { origin, pathname } = new URL(url);
      return origins.includes(origin) && pathname === path;
    });
    return Promise.all(
      called.map(async (row) => {
        const ciphertexts = [row.secret, row.previous_secret].filter((one) => one !== null);
        const secrets = await Promise.all(ciphertexts.map((one) => decrypt(row, one)));
        return { endpointId: row.id, secrets, publicKeys: row.public_keys };
      }),
    );
  };
}
