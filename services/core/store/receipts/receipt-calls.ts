import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';
import { withDatabaseDeadline } from '../query/tenant-scope.ts';

/** The facts about an account that are needed to take in a receipt call. */
export type ReceiptAccount = {
  readonly id: ProviderAccountId;
  readonly tenantId: TenantId;
  readonly provider: string;
  /** Version of the token that the receipt URL has now. */
  readonly receiptVersion: number;
  /** Until when the previous version is valid too. */
  readonly receiptGraceUntil: Date | null;
};

/** A vendor's call to a receipt URL, as received. */
export type NewReceiptCall = {
  readonly accountId: ProviderAccountId;
  readonly method: 'GET' | 'POST';
  /** Version of the token in the URL. */
  readonly receiptVersion: number;
  /** The part of the URL after the token, with its question mark. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** Trace context of the span in which it was received. */
  readonly traceparent?: string | undefined;
};

/** `full`: too many calls or bytes of the account wait already. `gone`: the account does not exist, or no longer has this URL. */
export type ReceiptCallVerdict = 'stored' | 'full' | 'gone';

/** Limit on one account's calls that no worker has parsed. */
export const WAITING_CALLS_MAX = 10_000;
const WAITING_BYTES_MAX = 64 * 1024 * 1024;

/** Loads accounts by id, without deleted ones. */
export async function loadReceiptAccounts(
  sql: Sql,
  ids: readonly string[],
): Promise<Map<string, ReceiptAccount>> {
  const rows = await withDatabaseDeadline(
    sql<
      {
        id: ProviderAccountId;
        tenant_id: TenantId;
        provider: string;
        receipt_version: number;
        receipt_grace_until: Date | null;
      }[]
    >`select id, tenant_id, provider, receipt_version, receipt_grace_until from receipt_accounts(${[...ids]}::uuid[])`,
  );
  return new Map(
    rows.map((row) => [
      row.id,
      {
        id: row.id,
        tenantId: row.tenant_id,
        provider: row.provider,
        receiptVersion: row.receipt_version,
        receiptGraceUntil: row.receipt_grace_until,
      },
    ]),
  );
}

/**
 * Stores calls of any accounts in one statement and one commit.
 * @param counted accounts that may be full: their waiting calls are counted, which reads all of them. Default: all.
 * @returns one verdict per call, in order.
 * @throws DependencyError: it is then unknown whether they are stored.
 */
export async function storeReceiptCalls(
  sql: Sql,
  calls: readonly NewReceiptCall[],
  counted: readonly string[] = [...new Set(calls.map(({ accountId }) => accountId))],
): Promise<ReceiptCallVerdict[]> {
  const batch = calls.map((call, i) => ({
    ord: i + 1,
    account_id: call.accountId,
    method: call.method,
    receipt_version: call.receiptVersion,
    query: call.query,
    headers: call.headers,
    traceparent: call.traceparent,
    body: Buffer.from(call.body.buffer, call.body.byteOffset, call.body.byteLength).toString('base64'),
  }));
  const rows = await withDatabaseDeadline(
    sql<{ verdict: ReceiptCallVerdict }[]>`
      select verdict from store_receipt_calls(${asJson(sql, batch)}, ${[...counted]}::uuid[], ${WAITING_CALLS_MAX},
        ${WAITING_BYTES_MAX}) order by ord`,
  );
  return rows.map(({ verdict }) => verdict);
}
