import { askableProviders } from '#providers/registry.ts';
import type { WorkerEvents } from '../events.ts';
import type { Lookups } from '../lookups/lookups.ts';
import type { Task } from '../tasks.ts';
import type { ReceiptApplier } from './receipt-applier.ts';
import { expireReceipts, type ExpireReceiptsDeps } from './expire-receipts.ts';
import type { ReceiptReader } from './receipt-reader.ts';
import { failOverSilent, type SilentMessagesDeps } from './fail-over-silent.ts';

export type ReceiptTaskName = 'receipts' | 'receipt_calls' | 'late_receipts' | 'silent_messages' | 'lookups';

export type ReceiptTasksDeps = Pick<SilentMessagesDeps, 'whyClosed' | 'mark' | 'isStopping'> & {
  readonly store: ExpireReceiptsDeps['store'] & SilentMessagesDeps['store'];
  readonly applier: ReceiptApplier;
  /** Undefined: other workers read receipt calls. */
  readonly reader: ReceiptReader | undefined;
  readonly lookups: Lookups;
  readonly events: Pick<WorkerEvents, 'messagesSilent' | 'failedOver'>;
  readonly sweepMs: number;
  readonly wake: (task: 'lookups') => void;
};

/** Interval of the queries for overdue receipts. */
const LATE_RECEIPTS_MS = 10_000;
/** Interval of the queries for messages that go on to another account after a receipt timeout. */
const SILENT_MS = 1_000;

export function receiptTasks({
  store,
  applier,
  reader,
  lookups,
  events,
  sweepMs,
  whyClosed,
  mark,
  isStopping,
  wake,
}: ReceiptTasksDeps): Record<ReceiptTaskName, Task> {
  return {
    receipts: { everyMs: sweepMs, work: applier.apply },
    receipt_calls: {
      everyMs: sweepMs,
      async work(onBatch) {
        for (;;) {
          const read = await reader?.read();
          if (read?.isFull !== true || isStopping()) return;
          onBatch();
        }
      },
    },
    late_receipts: {
      everyMs: LATE_RECEIPTS_MS,
      work: (onBatch) =>
        expireReceipts({
          store,
          onBatch,
          askable: askableProviders(),
          onSilent: events.messagesSilent,
          onSeen: () => wake('lookups'),
        }),
    },
    silent_messages: {
      everyMs: SILENT_MS,
      work: (onBatch) =>
        failOverSilent({ store, onBatch, whyClosed, mark, onFailedOver: events.failedOver, isStopping }),
    },
    lookups: { everyMs: sweepMs, work: () => lookups.look() },
  };
}
