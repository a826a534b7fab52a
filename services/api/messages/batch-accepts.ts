import { databaseFaultOf, isPlaceRefused } from '#core/domain/storage/database-fault.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import { findFaults } from '#core/domain/storage/bisect-faults.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import { createQueueRoom } from '#core/platform/process/queue-room.ts';
import type { AcceptRow } from '#core/store/messages/acceptance.ts';
import type { BatchAcceptance, BatchVerdicts } from '#core/store/messages/batch-acceptance.ts';
import { SWEEP_AFTER_MS } from './accept-batcher.ts';
import { acceptWakes } from './accept-wakes.ts';

/** Accepts batches sent by clients, each in its own commit: a strict batch is stored completely or not at all. */
export type BatchAccepts = {
  /**
   * Resolves after the commit that contains the messages, or, with nothing stored, when some messages cannot be stored.
   * @throws QueueFullError under overload; the database's error when it did not answer, when a message of a strict batch is
   * at fault, or when too many messages of a permissive batch are.
   */
  readonly accept: (
    owner: string,
    batch: BatchAcceptance,
    bytes: number,
  ) => Promise<BatchVerdicts | Unstorable>;
  /** Resolves when every accepted batch is settled. */
  readonly drain: () => Promise<void>;
};

/** Indexes of the rows of a permissive batch that the database refuses. Nothing was stored. */
export type Unstorable = { readonly kind: 'unstorable'; readonly indexes: readonly number[] };

export type BatchAcceptsDeps = {
  readonly acceptBatch: (batch: BatchAcceptance, sweepAfterMs: number) => Promise<BatchVerdicts>;
  /** Runs the same insert for some of the messages and rolls it back. */
  readonly tryBatch: (rows: readonly AcceptRow[], sweepAfterMs: number) => Promise<void>;
  /** Called when the database refuses a message, which is a bug on our side. */
  readonly onRefused: (row: AcceptRow, error: unknown) => void;
  readonly wakes: Pick<Nats, 'isConnected' | 'publishWakes'>;
  /** Called when the database refused the places of messages: all places reserved with them are unusable. */
  readonly onPlaceRefused: () => void;
};

/** Concurrent batches, out of the connections of a process: single messages never wait behind batches of hundreds. */
const BATCHES_AT_ONCE = 2;
/**
 * Maximum probes per batch. Finding one faulty message among 500 takes 18 probes; when dozens fail, the fault is not in the
 * messages.
 */
const PROBES_MAX = 128;
const WAITING_MAX = 64;
const WAITING_BYTES_MAX = 64 * 1024 * 1024;

export function createBatchAccepts(deps: BatchAcceptsDeps): BatchAccepts {
  const { acceptBatch, tryBatch, wakes, onPlaceRefused, onRefused } = deps;
  const room = createQueueRoom({ itemsMax: WAITING_MAX, bytesMax: WAITING_BYTES_MAX });
  const batches = createMicroBatch<{ owner: string; batch: BatchAcceptance }, BatchVerdicts | Unstorable>({
    itemsMax: 1,
    flushesMax: BATCHES_AT_ONCE,
    queuedMax: WAITING_MAX,
    ownerOf: ({ owner }) => owner,
    flush: (waiting) => Promise.all(waiting.map(({ batch }) => settle(batch))),
  });

  async function settle(batch: BatchAcceptance): Promise<BatchVerdicts | Unstorable> {
    try {
      const result = await acceptBatch(batch, wakes.isConnected() ? SWEEP_AFTER_MS : 0);
      if (result.kind === 'settled') wake(batch, result.verdicts);
      return result;
    } catch (error) {
      if (isPlaceRefused(error)) onPlaceRefused();
      if (batch.strict || databaseFaultOf(error) !== 'row') throw error;
      return await unstorableOf(batch.rows, error);
    }
  }

  /** @throws `error` when no single message is at fault, or too many are. */
  async function unstorableOf(rows: readonly AcceptRow[], error: unknown): Promise<Unstorable> {
    const refused = await findFaults(rows, (some) => tryBatch(some, SWEEP_AFTER_MS), PROBES_MAX);
    if (refused === undefined || refused.length === 0) throw error;
    for (const one of refused) onRefused(rows[one.index] as AcceptRow, one.error);
    return { kind: 'unstorable', indexes: refused.map(({ index }) => index) };
  }

  /**
   * Not awaited: the sweep finds messages whose wake-up is lost. A wake-up for a message that was not stored finds nothing.
   */
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
