import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { DeliveryCompletion } from '#core/store/webhooks/delivery-completion.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { askUntilAnswered, type AskUntilAnsweredDeps } from '../ask-until-answered.ts';

export type DeliveryRecorder = {
  /** Records a claim. Never rejects: deliveries that cannot be recorded are claimed again after the lease. */
  record(completion: DeliveryCompletion): Promise<void>;
  drain(): Promise<void>;
};

export type DeliveryRecorderDeps = AskUntilAnsweredDeps & {
  readonly store: Pick<WebhookStore, 'completeDeliveries'>;
};

const BATCH_MAX = 64;
const GATHER_MS = 25;

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
    const isFinal = (error: unknown): boolean =>
      performance.now() > until || databaseFaultOf(error) === 'row';
    await askUntilAnswered(() => deps.store.completeDeliveries(rows), rows.length, deps, isFinal);
    return rows.map(() => undefined);
  }

  function giveUp(rows: readonly DeliveryCompletion[], error: unknown): undefined[] {
    deps.onFailure(error, rows.length);
    return rows.map(() => undefined);
  }

  return { record: (completion) => batch.add(completion), drain: () => batch.drain() };
}
