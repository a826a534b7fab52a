import { createCommitBatcher } from '#core/platform/process/commit-batcher.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { NewReceiptCall, ReceiptCallVerdict } from '#core/store/receipts/receipt-calls.ts';

/** A call with the tenant of its account. */
export type TenantReceiptCall = NewReceiptCall & { readonly tenantId: TenantId };

export type ReceiptBatcher = {
  /**
   * Resolves after the commit that contains the call.
   * @throws QueueFullError under overload, or when this tenant alone takes half of the queue; the database's error when
   * the call itself is at fault or the database did not answer.
   */
  readonly store: (call: TenantReceiptCall) => Promise<ReceiptCallVerdict>;
  /** Resolves when every accepted call is settled. */
  readonly drain: () => Promise<void>;
};

export type ReceiptBatcherOptions = {
  readonly storeReceiptCalls: (calls: readonly NewReceiptCall[]) => Promise<ReceiptCallVerdict[]>;
  /** Called after each commit that contains calls. */
  readonly onStored: () => void;
  readonly callsMax?: number;
  /**
   * Maximum bytes of one batch: every call in it waits until the whole batch is stored, and messages wait while the batch
   * is serialized. Default 256 KiB, as for messages.
   */
  readonly bytesMax?: number;
  readonly queuedMax?: number;
  readonly queuedBytesMax?: number;
};

/**
 * Longer than for messages: vendors can wait, and during a flood messages get most commits. A single call is stored
 * immediately.
 */
const GATHER_MS = 15;

/** Batches the calls of vendors into few commits. */
export function createReceiptBatcher(options: ReceiptBatcherOptions): ReceiptBatcher {
  const { storeReceiptCalls, onStored, callsMax, ...bounds } = options;
  const batch = createCommitBatcher<TenantReceiptCall, ReceiptCallVerdict>({
    ...bounds,
    rowsMax: callsMax,
    store: storeReceiptCalls,
    // However many accounts the tenant has.
    ownerOf: ({ tenantId }) => tenantId,
    bytesOf: ({ body }) => body.length,
    gatherMs: GATHER_MS,
    onSettled(_, verdicts) {
      if (verdicts.includes('stored')) onStored();
    },
  });

  return {
    async store(call) {
      // Tests break this (mutant: receipt-before-commit): a call is answered once it is stored.
      const verdict = await batch.add(call);
      return verdict;
    },
    drain: () => batch.drain(),
  };
}
