import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { DeliveryCompletion } from '#core/store/webhooks/delivery-completion.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { askUntilAnswered, type AskUntilAnsweredDeps } from '../ask-until-answered.ts';

export type DeliveryRecorder = {
  /**
   * Records a claim. Never rejects: deliveries that cannot be recorded are claimed again after the lease.
   * @returns whether it was recorded.
   */
  record(completion: DeliveryCompletion): Promise<boolean>;
  drain(): Promise<void>;
};

export type DeliveryRecorderDeps = AskUntilAnsweredDeps & {
  readonly store: Pick<WebhookStore, 'completeDeliveries'>;
};

const BATCH_MAX = 64;
const GATHER_MS = 25;

/** Creates the recorder of finished claims. It batches claims that end together, and retries until their leases are over. */
export function createDeliveryRecorder(deps: DeliveryRecorderDeps): DeliveryRecorder {
  const batch = createMicroBatch<DeliveryCompletion, boolean>({
    flush: (rows) => bisectFaults(rows, write, writeLess),
    itemsMax: BATCH_MAX,
    flushesMax: 2,
    gatherMs: GATHER_MS,
    enough: BATCH_MAX / 2,
    queuedMax: Number.POSITIVE_INFINITY,
  });

  async function write(rows: readonly DeliveryCompletion[]): Promise<boolean[]> {
    const until = Math.max(...rows.map(({ claim }) => claim.leaseEndsAt));
    const isFinal = (error: unknown): boolean =>
      performance.now() > until || databaseFaultOf(error) === 'row';
    await askUntilAnswered(() => deps.store.completeDeliveries(rows), rows.length, deps, isFinal);
    return rows.map(() => true);
  }

  /** Writes a refused row again with less, because its events would otherwise be called for again after each lease. */
  async function writeLess(rows: readonly DeliveryCompletion[], error: unknown): Promise<boolean[]> {
    deps.onFailure(error, rows.length);
    const [row] = rows;
    if (row === undefined || databaseFaultOf(error) !== 'row') return rows.map(() => false);
    for (const less of [withoutAnswers(row), withoutAttempts(row)]) {
      try {
        return await write([less]);
      } catch (refusal) {
        deps.onFailure(refusal, 1);
      }
    }
    return [false];
  }

  return { record: (completion) => batch.add(completion), drain: () => batch.drain() };
}

/** The endpoint's own text is the likeliest reason for a refusal. */
function withoutAnswers(row: DeliveryCompletion): DeliveryCompletion {
  return { ...row, attempts: row.attempts.map((attempt) => ({ ...attempt, answer: null })) };
}

/** What follows matters more than the log: the events that failed are retried on their schedule, and the others are done. */
function withoutAttempts(row: DeliveryCompletion): DeliveryCompletion {
  return { ...row, attempts: [] };
}
