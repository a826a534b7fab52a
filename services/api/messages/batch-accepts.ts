import { isPlaceRefused } from '#core/domain/database-fault.ts';
import type { Nats } from '#core/platform/nats/broker.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import { createQueueRoom } from '#core/platform/process/queue-room.ts';
import type { BatchAcceptance, BatchVerdicts } from '#core/store/batch-acceptance.ts';
import { SWEEP_AFTER_MS } from './accept-batcher.ts';
import { acceptWakes } from './accept-wakes.ts';

/** Accepts batches that clients have made, each in a commit of its own: a strict one leaves nothing of itself behind. */
export type BatchAccepts = {
  /**
   * Resolves after the commit that holds the messages.
   * @throws QueueFullError under overload; the database's error where no answer came.
   */
  readonly accept: (owner: string, batch: BatchAcceptance, bytes: number) => Promise<BatchVerdicts>;
  /** Resolves when everything taken so far is settled. */
  readonly drain: () => Promise<void>;
};

export type BatchAcceptsDeps = {
  readonly acceptBatch: (batch: BatchAcceptance, sweepAfterMs: number) => Promise<BatchVerdicts>;
  readonly wakes: Pick<Nats, 'isConnected' | 'publishWakes'>;
  /** Called when the places of messages were refused: all that were reserved with them are of no use. */
  readonly onPlaceRefused: () => void;
};

/** Of the connections of a process: single messages never wait for those that come by the hundred. */
const BATCHES_AT_ONCE = 2;
const WAITING_MAX = 64;
const WAITING_BYTES_MAX = 64 * 1024 * 1024;

export function createBatchAccepts({ acceptBatch, wakes, onPlaceRefused }: BatchAcceptsDeps): BatchAccepts {
  const room = createQueueRoom({ itemsMax: WAITING_MAX, bytesMax: WAITING_BYTES_MAX });
  const batches = createMicroBatch<{ owner: string; batch: BatchAcceptance }, BatchVerdicts>({
    itemsMax: 1,
    flushesMax: BATCHES_AT_ONCE,
    queuedMax: WAITING_MAX,
    ownerOf: ({ owner }) => owner,
    flush: (waiting) => Promise.all(waiting.map(({ batch }) => settle(batch))),
  });

  async function settle(batch: BatchAcceptance): Promise<BatchVerdicts> {
    try {
      const result = await acceptBatch(batch, wakes.isConnected() ? SWEEP_AFTER_MS : 0);
      if (result.kind === 'settled') wake(batch, result.verdicts);
      return result;
    } catch (error) {
      if (isPlaceRefused(error)) onPlaceRefused();
      throw error;
    }
  }

  /** Not awaited: the sweep finds messages whose wake-up is lost. What was not stored after all is found by nobody. */
  function wake({ rows, strict }: BatchAcceptance, verdicts: readonly { verdict: string }[]): void {
    const accepted = rows.filter((_, i) => verdicts[i]?.verdict === 'accepted');
    const isWhole = verdicts.every(({ verdict }) => verdict === 'accepted' || verdict === 'replayed');
    const publications = isWhole || !strict ? acceptWakes(accepted) : [];
    if (publications.length > 0) void wakes.publishWakes(publications);
  }

  return {
    async accept(owner, batch, bytes) {
      const leave = room.enter(owner, bytes);
      try {
        return await batches.add({ owner, batch });
      } finally {
        leave();
      }
    },
    drain: () => batches.drain(),
  };
}
