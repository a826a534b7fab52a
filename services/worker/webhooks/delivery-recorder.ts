import { databaseFaultOf } from '#core/domain/database-fault.ts';
import { bisectFaults } from '#core/domain/bisect-faults.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { DeliveryCompletion, WebhookStore } from '#core/store/webhook-deliveries.ts';

export type DeliveryRecorder = {
  /** Records a claim. Never rejects: deliveries that cannot be recorded are claimed again after the lease. */
  record(completion: DeliveryCompletion): Promise<void>;
  drain(): Promise<void>;
};

export type DeliveryRecorderDeps = {
  readonly store: Pick<WebhookStore, 'completeDeliveries'>;
  /** Called when a batch could not be written. */
  readonly onFailure: (error: unknown, claims: number) => void;
  /** Ends the retries when aborted. */
  readonly signal: AbortSignal;
};

const BATCH_MAX = 64;
const GATHER_MS = 25;
const RETRY_MS_MAX = 5_000;

/** Creates the recorder of finished claims. It batches claims that end together, and retries until their leases are over. */
export function createDeliveryRecorder(deps: DeliveryRecorderDeps): DeliveryRecorder {
  const batch = createMicroBatch<DeliveryCompletion, void>({
    flush: (rows) => bisectFaults(rows, write, giveUp),
    itemsMax: BATCH_MAX,
    flushesMax: 2,
    gatherMs: GATHER_MS,
    enough: BATCH_MAX / 2,
    queuedMax: Number.POSITIVE_INFINITY,
  });

  async function write(rows: readonly DeliveryCompletion[]): Promise<undefined[]> {
    const until = Math.max(...rows.map(({ claim }) => claim.leaseEndsAt));
    for (let delayMs = 50; ; delayMs = Math.min(delayMs * 2, RETRY_MS_MAX)) {
      try {
        await deps.store.completeDeliveries(rows);
        return rows.map(() => undefined);
      } catch (error) {
        const isOver = deps.signal.aborted || performance.now() > until;
        if (isOver || databaseFaultOf(error) === 'row') throw error;
        deps.onFailure(error, rows.length);
        await new Promise((resolve) => setTimeout(resolve, delayMs));
      }
    }
  }

  function giveUp(rows: readonly DeliveryCompletion[], error: unknown): undefined[] {
    deps.onFailure(error, rows.length);
    return rows.map(() => undefined);
  }

  return { record: (completion) => batch.add(completion), drain: () => batch.drain() };
}
