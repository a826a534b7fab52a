import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { ReceiptAccount } from '#core/store/receipts/receipt-calls.ts';
import { createFreshCache } from '../caches/fresh-cache.ts';
import type { Notice } from '#core/domain/tenant/notice.ts';

export type ReceiptAccounts = {
  /** Resolves to undefined for a deleted account. @throws QueueFullError under overload; otherwise the database's error. */
  readonly find: (id: string) => Promise<ReceiptAccount | undefined>;
  /** Drops the cached copies that a change makes stale. */
  readonly drop: (notice: Notice) => void;
};

export type ReceiptAccountsDeps = {
  readonly loadReceiptAccounts: (ids: readonly string[]) => Promise<Map<string, ReceiptAccount>>;
};

const ENTRIES_MAX = 20_000;
const LOOKUP_MAX = 256;
const QUEUED_MAX = 4_000;
/** Longer than a query takes on a healthy database. */
const OVERLAP_AFTER_MS = 50;

type Found = { readonly id: string; readonly account: ReceiptAccount | undefined };

/** Caches the accounts that vendors report on. Concurrent lookups are batched into one query. */
export function createReceiptAccounts({ loadReceiptAccounts }: ReceiptAccountsDeps): ReceiptAccounts {
  const known = createFreshCache<Found>(ENTRIES_MAX);
  const lookups = createMicroBatch<string, ReceiptAccount | undefined>({
    itemsMax: LOOKUP_MAX,
    flushesMax: 2,
    overlapAfterMs: OVERLAP_AFTER_MS,
    queuedMax: QUEUED_MAX,
    async flush(ids) {
      const found = await loadReceiptAccounts(ids);
      return ids.map((id) => found.get(id));
    },
  });
  return {
    async find(id) {
      const { account } = await known.get(id, async () => ({ id, account: await lookups.add(id) }));
      return account;
    },
    drop({ tenantId, id: changed }) {
      known.dropWhere(({ id, account }) =>
        changed === undefined ? account?.tenantId === tenantId : id === changed,
      );
    },
  };
}
