import { createTurnQueue } from '#core/domain/turn-queue.ts';

/** Thrown by `add` when the bounded queue is full: shed the load, do not wait. */
export class QueueFullError extends Error {
  override readonly name = 'QueueFullError';
}

export type MicroBatch<Item, Result> = {
  /** @throws QueueFullError at once when `queuedMax` items wait already; else whatever `flush` threw. */
  add(item: Item): Promise<Result>;
  /** Resolves when everything added so far has been flushed. */
  drain(): Promise<void>;
  readonly queued: number;
};

export type MicroBatchOptions<Item, Result> = {
  /** Settles a batch: one result per item, in order. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly itemsMax: number;
  /** Flushes under way at once. */
  readonly flushesMax: number;
  readonly queuedMax: number;
  /**
   * How long a batch may wait for more, in milliseconds; a full one does not wait. Default 0: whatever has come by the
   * end of the tick goes at once.
   */
  readonly lingerMs?: number;
  /**
   * How long the last flush has the database for itself, in milliseconds, before another may begin beside it. Default 0.
   * Flushes one after the other are larger and cost less; one that hangs must not hold up all that come after it.
   */
  readonly patienceMs?: number;
  /** Whose an item is: batches take from all owners in turn. Default: all belong to one, and go as they came. */
  readonly ownerOf?: (item: Item) => string;
  /** What an item weighs, for example its bytes, where batches are bounded by that as well. Default: nothing. */
  readonly weightOf?: (item: Item) => number;
  /** All items of a batch together; an item that alone weighs more makes a batch of its own. Default: no bound. */
  readonly weightMax?: number;
};

type Waiting<Item, Result> = {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

/**
 * Gathers single calls into batches, by default without a timer: an idle batcher flushes at the end of the tick, a busy one when a
 * flush returns, so batches grow with the load and an idle system waits for nothing.
 */
export function createMicroBatch<Item, Result>(
  options: MicroBatchOptions<Item, Result>,
): MicroBatch<Item, Result> {
  const waiting = createTurnQueue<Waiting<Item, Result>>();
  let flushing = 0;
  let scheduled = false;
  let idle: PromiseWithResolvers<void> | undefined;
  let begunAt = 0;
  /** Runs while the flush under way is waited for. */
  let overtaking: NodeJS.Timeout | undefined;
  const { lingerMs = 0, patienceMs = 0, ownerOf = () => '' } = options;
  const { weightOf = () => 0, weightMax = Number.POSITIVE_INFINITY } = options;

  function schedule(): void {
    if (scheduled || flushing >= options.flushesMax || waiting.size === 0) return;
    scheduled = true;
    const flush = () => {
      scheduled = false;
      overtaking = undefined;
      void flushOne();
    };
    const restMs = flushing === 0 ? 0 : begunAt + patienceMs - performance.now();
    if (restMs > 0) overtaking = setTimeout(flush, restMs);
    else if (lingerMs > 0 && waiting.size < options.itemsMax) setTimeout(flush, lingerMs);
    else setImmediate(flush);
  }

  /** Lighter items of other owners do not wait for one that has no room left. */
  function takeBatch(): Waiting<Item, Result>[] {
    let weight = 0;
    let isEmpty = true;
    return waiting.take(options.itemsMax, (_owner, { item }) => {
      const own = weightOf(item);
      if (!isEmpty && weight + own > weightMax) return false;
      isEmpty = false;
      weight += own;
      return true;
    });
  }

  async function flushOne(): Promise<void> {
    const batch = takeBatch();
    if (batch.length === 0) return;
    flushing++;
    begunAt = performance.now();
    schedule();
    try {
      const results = await options.flush(batch.map((entry) => entry.item));
      for (const [i, entry] of batch.entries()) entry.resolve(results[i] as Result);
    } catch (error) {
      for (const entry of batch) entry.reject(error);
    } finally {
      flushing--;
      if (overtaking !== undefined) {
        clearTimeout(overtaking);
        overtaking = undefined;
        scheduled = false;
      }
      schedule();
      if (flushing === 0 && waiting.size === 0) idle?.resolve();
    }
  }

  return {
    add(item) {
      if (waiting.size >= options.queuedMax) {
        return Promise.reject(new QueueFullError(`${options.queuedMax} items are waiting`));
      }
      return new Promise<Result>((resolve, reject) => {
        waiting.push(ownerOf(item), { item, resolve, reject });
        schedule();
      });
    },
    async drain() {
      if (flushing === 0 && waiting.size === 0) return;
      idle ??= Promise.withResolvers<void>();
      await idle.promise;
      idle = undefined;
    },
    get queued() {
      return waiting.size;
    },
  };
}
