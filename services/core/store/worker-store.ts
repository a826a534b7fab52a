import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';
import type { Bounded } from './query/bounded-queries.ts';
import { accountStore } from './accounts/called-accounts.ts';
import { claimStore } from './sending/claims.ts';
import { completedMessageStore } from './sending/completed-messages.ts';
import { feedNumberingStore } from './webhooks/feed-numbering.ts';
import { lookupStore } from './receipts/lookups.ts';
import { receiptStore } from './receipts/receipts.ts';
import { silentMessageStore } from './receipts/silent-messages.ts';
import { tenantFactStore } from './tenants/tenant-facts.ts';
import { upkeepStore } from './upkeep/upkeep.ts';
import { usageCountingStore } from './tenants/usage-counting.ts';
import { waitingMessageStore } from './sending/waiting-messages.ts';

/**
 * Creates the worker's side of the store. Everything here works across tenants through functions of the schema; the worker's role
 * cannot access tables. `deadlineMs` bounds every call.
 * @param addressKeys computes the keys of suppressed recipients.
 */
export function workerStore(sql: Sql, deadlineMs: number, addressKeys: AddressKeyRoot) {
  const bounded: Bounded = (work) => withDeadline(work, deadlineMs);
  return {
    ...claimStore(sql, bounded),
    ...waitingMessageStore(sql, bounded),
    ...completedMessageStore(sql, bounded, addressKeys),
    ...receiptStore(sql, bounded, addressKeys),
    ...accountStore(sql, bounded),
    ...lookupStore(sql, bounded),
    ...silentMessageStore(sql, bounded, addressKeys),
    ...feedNumberingStore(sql, bounded),
    ...usageCountingStore(sql, bounded),
    ...tenantFactStore(sql, bounded),
    ...upkeepStore(sql, bounded),
  };
}

export type WorkerStore = ReturnType<typeof workerStore>;
