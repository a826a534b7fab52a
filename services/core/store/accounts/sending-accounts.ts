import type { TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';

/** A provider account that could send a message. */
export type SendingAccount = { readonly id: string; readonly channel: string; readonly provider: string };

/** Returns the accounts, the oldest first. */
export async function listSendingAccounts(tenantId: TenantId, tx: TransactionSql): Promise<SendingAccount[]> {
  return tx<SendingAccount[]>`
    select id, channel, provider from provider_accounts where tenant_id = ${tenantId} and status not in ('disabled', 'deleted')
    order by seq`;
}
