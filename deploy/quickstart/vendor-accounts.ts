import { accountSecretBinding } from '#core/domain/storage/binding.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { createMessageIds } from '#core/domain/storage/message-id.ts';
import { receiptKey, receiptToken, receiptUrl } from '#core/domain/receipts/receipt-token.ts';
import { loadMessageIdKey } from '#core/store/messages/message-places.ts';
import type { AccountOf } from '#providers/stand-in.ts';
import type { WorkerView } from './worker-view.ts';

type Row = {
  readonly id: string;
  readonly tenant_id: TenantId;
  readonly config_public: Record<string, unknown>;
  readonly ciphertext: string | null;
  readonly receipt_version: number;
};

/**
 * Returns what the vendors know about their customers: the report URL, which people enter at a vendor by hand, and the
 * signing secret, which vendors issue and tenants enter in Despatch. Reads both from the worker's data, so that accounts
 * added later are known too.
 */
export async function openVendorAccounts({ sql, keyring, config }: WorkerView): Promise<AccountOf> {
  const { receipts } = config;
  const ids = createMessageIds(await loadMessageIdKey(sql));
  const key = receiptKey(receipts.pepper);

  return async (reference) => {
    const place = ids.decode(reference.toLowerCase());
    if (place === undefined) return undefined;
    const [row] = await sql<Row[]>`
      select a.id, a.tenant_id, a.config_public, a.ciphertext, a.receipt_version
      from message_states s join provider_accounts a on a.id = s.account_id
      where s.seq = ${place.seq} and s.purge_on = ${place.purgeOn}`;
    if (row === undefined || row.ciphertext === null) return undefined;
    const plaintext = await keyring.decrypt(accountSecretBinding(row.tenant_id, row.id), row.ciphertext);
    const token = receiptToken(key, row.id, row.receipt_version);
    return {
      publicConfig: row.config_public,
      secretConfig: JSON.parse(Buffer.from(plaintext).toString()) as Record<string, unknown>,
      receiptUrl: receiptUrl(receipts.publicBaseUrl ?? '', row.id, token),
    };
  };
}
