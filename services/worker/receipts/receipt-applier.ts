import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import type { DueReceipt } from '#core/domain/receipts/due-receipt.ts';
import type { ReceiptDecisions, ReceiptResult } from '#core/domain/receipts/receipt-decisions.ts';
import { waitMs } from '#core/domain/receipts/wait-limit.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { hasAnySurplus } from '#core/domain/queue/expected-work.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { SideTurn } from '../beside-sends/side-pace.ts';
import type { ReceiptPace, ReceiptWork } from './receipt-pace.ts';

export type ReceiptApplierDeps = {
  readonly store: Pick<WorkerStore, 'applyReceipts' | 'putOffReceipts'>;
  readonly pace: ReceiptPace;
  readonly isSending: () => boolean;
  readonly onApplied: (results: readonly ReceiptResult[]) => void;
  /** Called when a deferred batch failed, or a receipt cannot be applied; they are found again. */
  readonly onFailed: (error: unknown) => void;
  readonly isStopping: () => boolean;
};

export type ReceiptApplier = {
  /**
   * Applies the due receipts. Receipts of tenants with surplus are applied later, in their own turns.
   * @param onBatch called after each full batch.
   */
  apply(onBatch?: () => void): Promise<void>;
  /** Waits for the receipts that are applied later. */
  drain(): Promise<void>;
};

/** Small, so that a message whose rows a batch has locked waits only some milliseconds. */
const WHILE_SENDING_MAX = 128;
/** Smaller still: a message that is accepted or sent meanwhile also waits for the processor. */
const SURPLUS_MAX = 32;
/** Large, so that the cost of a statement is shared by many receipts. */
const AT_ONCE_MAX = 256;

export function createReceiptApplier(deps: ReceiptApplierDeps): ReceiptApplier {
  const { store, pace, isSending, isStopping } = deps;
  let later: Promise<void> | undefined;

  /**
   * Applies one batch of due receipts.
   * @returns whether there may be more.
   */
  async function applySome(kind: SideTurn, without: readonly string[]): Promise<boolean> {
    const most = isSending() ? (kind === 'surplus' ? SURPLUS_MAX : WHILE_SENDING_MAX) : AT_ONCE_MAX;
    try {
      const { results } = await pace.run(
        kind,
        () => store.applyReceipts(most, decideReceipts, without),
        workOf,
      );
      deps.onApplied(results);
      return results.length >= most && !isStopping();
    } catch (error) {
      if (!isReceiptAtFault(error)) throw error;
    }
    for (let count = 0; count < most && !isStopping(); count += 1)
      if (!(await applyOne(kind, without))) return false;
    return !isStopping();
  }

  /**
   * Applies one due receipt in a transaction of its own, so that one that cannot be applied keeps no others from it. Such a
   * receipt is put off.
   * @returns whether there may be more.
   */
  async function applyOne(kind: SideTurn, without: readonly string[]): Promise<boolean> {
    let due: readonly DueReceipt[] = [];
    const decide = (one: readonly DueReceipt[]): ReceiptDecisions => decideReceipts((due = one));
    try {
      const { results } = await pace.run(kind, () => store.applyReceipts(1, decide, without), workOf);
      deps.onApplied(results);
      return results.length > 0;
    } catch (error) {
      // Without a receipt there is none to put off: the query for it failed.
      if (!isReceiptAtFault(error) || due.length === 0) throw error;
      deps.onFailed(error);
      await store.putOffReceipts(due.map((one) => ({ id: one.id, ms: waitMs(one) })));
      return true;
    }
  }

  function applyLater(): void {
    later ??= applySurplus()
      .catch(deps.onFailed)
      .finally(() => (later = undefined));
  }

  async function applySurplus(): Promise<void> {
    while (await applySome('surplus', []));
  }

  return {
    async apply(onBatch) {
      for (let isFull = true; isFull;) {
        const withSurplus = pace.withSurplus();
        if (hasAnySurplus(withSurplus)) applyLater();
        if (withSurplus === 'everyone') return;
        isFull = await applySome('expected', [...withSurplus]);
        if (isFull) onBatch?.();
      }
    },
    async drain() {
      await later;
    },
  };
}

/** Whether the receipts themselves are at fault: the database refuses their values, or deciding about them throws. */
function isReceiptAtFault(error: unknown): boolean {
  const fault = databaseFaultOf(error);
  return fault === 'row' || (fault === null && !(error instanceof DependencyError));
}

function workOf({ results, waitedMs }: ReceiptDecisions): ReceiptWork {
  const receipts = new Map<string, number>();
  for (const { tenantId } of results) receipts.set(tenantId, (receipts.get(tenantId) ?? 0) + 1);
  return { receipts, waitedMs };
}
