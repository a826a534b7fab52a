import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import { createQueueRoom } from '#core/platform/process/queue-room.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { NewReceiptCall, ReceiptCallVerdict } from '#core/store/receipt-calls.ts';

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

type Settled = { readonly verdict: ReceiptCallVerdict } | { readonly error: unknown };

/** Longer than a commit takes on a healthy database. */
const OVERLAP_AFTER_MS = 50;
/**
 * Longer than for messages: vendors can wait, and during a flood messages get most commits. A single call is stored
 * immediately.
 */
const GATHER_MS = 15;
const ENOUGH = 32;

/** Batches the calls of vendors into few commits. */
export function createReceiptBatcher(options: ReceiptBatcherOptions): ReceiptBatcher {
  const {
    storeReceiptCalls,
    onStored,
    callsMax = 128,
    bytesMax = 256 * 1024,
    queuedMax = 2_000,
    queuedBytesMax = 64 * 1024 * 1024,
  } = options;
  const room = createQueueRoom({ itemsMax: queuedMax, bytesMax: queuedBytesMax });

  const settle = (calls: readonly NewReceiptCall[]): Promise<readonly Settled[]> =>
    bisectFaults<NewReceiptCall, Settled>(
      calls,
      async (some) => (await storeReceiptCalls(some)).map((verdict) => ({ verdict })),
      (some, error) => some.map(() => ({ error })),
    );

  const batch = createMicroBatch<TenantReceiptCall, Settled>({
    itemsMax: callsMax,
    weightMax: bytesMax,
    weightOf: ({ body }) => body.length,
    flushesMax: 2,
    overlapAfterMs: OVERLAP_AFTER_MS,
    gatherMs: GATHER_MS,
    enough: ENOUGH,
    queuedMax,
    // A flood of one tenant waits behind itself, however many accounts it has: other tenants' calls are in the next commit.
    ownerOf: ({ tenantId }) => tenantId,
    async flush(calls) {
      const settled = await settle(calls);
      if (settled.some((one) => 'verdict' in one && one.verdict === 'stored')) onStored();
      return settled;
    },
  });

  return {
    async store(call) {
      const leave = room.enter(call.tenantId, call.body.length);
      try {
        // Tests break this (mutant: receipt-before-commit): a call is answered once it is stored.
        const settled = await batch.add(call);
        if ('error' in settled) throw settled.error;
        return settled.verdict;
      } finally {
        leave();
      }
    },
    drain: () => batch.drain(),
  };
}
