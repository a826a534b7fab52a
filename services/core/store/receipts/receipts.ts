import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { DueReceipt } from '#core/domain/receipts/due-receipt.ts';
import type { ReceiptDecisions } from '#core/domain/receipts/receipt-decisions.ts';
import { WAITING_REPORTS_MAX } from '#core/domain/receipts/wait-limit.ts';
import { areImplied } from '#core/domain/receipts/reported-copies.ts';
import { asJson, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { inTransaction } from '../query/after-commit.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';
import { camelRows } from '../query/camel-rows.ts';
import { suppressCaused } from '../suppressions/caused-suppressions.ts';
import type { SettledReceiptCalls, StoredReceiptCall } from './receipt-reports.ts';

type ClaimReceiptCalls = {
  readonly most: number;
  /** Of all bodies, without the oldest call's. */
  readonly bytesMax: number;
  /** Of each body; larger calls are left. */
  readonly bodyMax: number;
  readonly leaseMs: number;
  /** Providers whose calls can be read; those of others come when they are a day old. */
  readonly readable: readonly string[];
  /** Tenants that are passed over. Default: nobody. */
  readonly without?: readonly string[];
};

/** The worker's side of receipts: vendors' calls as they were stored, and the reports that they hold. */
export function receiptStore(sql: Sql, bounded: Bounded, addressKeys: AddressKeyRoot) {
  const { rowsOf, value } = boundedQueries(bounded);
  return {
    /**
     * Settles receipts whose turn it is, in one transaction that holds them and their messages.
     * @param decide what follows from them; a pure function.
     * @param without tenants that are passed over. Default: nobody.
     * @returns what was decided.
     */
    applyReceipts: (
      most: number,
      decide: (due: readonly DueReceipt[]) => ReceiptDecisions,
      without: readonly string[] = [],
    ) =>
      bounded(
        inTransaction(sql, async (tx) => {
          const due = camelRows<DueReceipt>(
            await tx`select * from lock_receipts(${most}, ${WAITING_REPORTS_MAX}, ${[...without]}::uuid[])`.values(),
          );
          const decided = decide(due);
          if (due.length > 0) await recordReceipts(tx, decided);
          await suppressCaused(tx, addressKeys, 'receipt', decided.suppress);
          return decided;
        }),
      ),
    /** Puts receipts off that could not be applied; each is due again after its milliseconds. */
    async putOffReceipts(receipts: readonly { readonly id: string; readonly ms: number }[]): Promise<void> {
      await bounded(sql`select record_receipts('[]', '[]', '{}', ${asJson(sql, [...receipts])}, '{}', '[]')`);
    },
    /** Vendors' calls to look into, a few of each tenant. They come again after `leaseMs` unless they are settled. */
    claimReceiptCalls: ({ most, bytesMax, bodyMax, leaseMs, readable, without = [] }: ClaimReceiptCalls) =>
      rowsOf<StoredReceiptCall>(
        sql`select * from claim_receipt_calls(${most}, ${bytesMax}, ${bodyMax}, ${leaseMs}, ${[...readable]}::text[],
          ${[...without]}::uuid[])`,
      ),
    async settleReceiptCalls({
      reports,
      begun,
      done,
      again,
      genuine,
      refused,
    }: SettledReceiptCalls): Promise<void> {
      await bounded(
        sql`select settle_receipt_calls(${asJson(sql, reports)}, ${[...begun]}::bigint[], ${[...done]}::bigint[], ${asJson(sql, again)},
          ${[...genuine]}::uuid[], ${asJson(sql, refused)})`,
      );
    },
    async messageIdKey(): Promise<Buffer> {
      return (await value<Buffer>(sql`select message_id_key() as n`)) ?? Buffer.alloc(0);
    },
  };
}

async function recordReceipts(tx: TransactionSql, decided: ReceiptDecisions): Promise<void> {
  // What is undefined does not travel, and is null there.
  const messages = decided.messages.map((one) => ({
    seq: one.seq,
    purge_on: one.purgeOn,
    status: one.status,
    final: one.final,
    failure: one.failure ?? undefined,
    partial: one.partial,
    late_bounce: one.lateBounce,
    segment_states: areImplied(one.copies, one.attempt) ? undefined : one.copies,
    engagement: isEmpty(one.engagement) ? undefined : one.engagement,
    was_waiting: one.wasWaiting,
    ...(one.via && {
      account_id: one.via.accountId,
      provider: one.via.provider,
      provider_message_id: one.via.providerMessageId,
    }),
    await_ms: one.awaitMs ?? undefined,
  }));
  const events = decided.events.map(({ purgeOn, tenantId, reportKey, ...event }) => ({
    ...event,
    purge_on: purgeOn,
    tenant_id: tenantId,
    report_key: reportKey,
  }));
  const days = new Set([...decided.messages, ...decided.events].map(({ purgeOn }) => purgeOn));
  const refused = decided.refused.map(({ accountId, reason }) => ({ account_id: accountId, reason }));
  await tx`select record_receipts(${asJson(tx, messages)}, ${asJson(tx, events)}, ${[...days]}::date[],
    ${asJson(tx, decided.waiting)}, ${[...decided.done]}::uuid[], ${asJson(tx, refused)})`;
}

function isEmpty(record: object): boolean {
  return Object.keys(record).length === 0;
}
