import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';
import type { Bounded } from './bounded-queries.ts';
import { accountStore } from './called-accounts.ts';
import { claimStore } from './claims.ts';
import { completedMessageStore } from './completed-messages.ts';
import { feedNumberingStore } from './feed-numbering.ts';
import { lookupStore } from './lookups.ts';
import { receiptStore } from './receipts.ts';
import { silentMessageStore } from './silent-messages.ts';
import { tenantFactStore } from './tenant-facts.ts';
import { upkeepStore } from './upkeep.ts';
import { usageCountingStore } from './usage-counting.ts';
import { waitingMessageStore } from './waiting-messages.ts';

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
