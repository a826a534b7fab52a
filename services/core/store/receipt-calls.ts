import type { ProviderAccountId, TenantId } from '#core/domain/ids.ts';
import { asJson, withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';
import { DATABASE_DEADLINE_MS } from './tenant-scope.ts';

/** What taking a vendor's call in needs to know of its account. */
export type ReceiptAccount = {
  readonly id: ProviderAccountId;
  readonly tenantId: TenantId;
  readonly provider: string;
  /** Of the token that the receipt URL has now. */
  readonly receiptVersion: number;
  /** Until when the version before holds too. */
  readonly receiptGraceUntil: Date | null;
};

/** A vendor's call to a receipt URL, as it came. */
export type NewReceiptCall = {
  readonly accountId: ProviderAccountId;
  readonly method: 'GET' | 'POST';
  /** Of the token that the URL had. */
  readonly receiptVersion: number;
  /** What followed the token, with its question mark. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** Of the span in which it was taken. */
  readonly traceparent?: string | undefined;
};

/** `full`: too much of the account's waits already. `gone`: no such account, or no longer with this URL. */
export type ReceiptCallVerdict = 'stored' | 'full' | 'gone';

/** Of one account's calls that no worker has looked into. */
export const WAITING_CALLS_MAX = 10_000;
const WAITING_BYTES_MAX = 64 * 1024 * 1024;

/** By id; without deleted ones. */
export async function loadReceiptAccounts(
  sql: Sql,
  ids: readonly string[],
): Promise<Map<string, ReceiptAccount>> {
  const rows = await withDeadline(
    sql<
      {
        id: ProviderAccountId;
        tenant_id: TenantId;
        provider: string;
        receipt_version: number;
        receipt_grace_until: Date | null;
      }[]
    >`select id, tenant_id, provider, receipt_version, receipt_grace_until from receipt_accounts(${[...ids]}::uuid[])`,
    DATABASE_DEADLINE_MS,
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
 * @param counted accounts that may be full: what waits of them is counted, which reads all of it. Default: all.
 * @returns one verdict per call, in order.
 * @throws DependencyError: nobody knows then whether they are stored.
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
  const rows = await withDeadline(
    sql<{ verdict: ReceiptCallVerdict }[]>`
      select verdict from store_receipt_calls(${asJson(sql, batch)}, ${[...counted]}::uuid[], ${WAITING_CALLS_MAX},
        ${WAITING_BYTES_MAX}) order by ord`,
    DATABASE_DEADLINE_MS,
  );
  return rows.map(({ verdict }) => verdict);
}
