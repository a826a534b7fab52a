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
   * A flush begins no sooner than this after the one before it began, in milliseconds, unless `enough` items wait.
   * Default 0. Under load batches grow to what comes in that time; what comes alone, or first, goes at the end of the tick.
   */
  readonly gatherMs?: number;
  /** If so many items wait, the flush does not wait for more. Default `itemsMax`. */
  readonly enough?: number;
  /**
   * How long the latest flush runs alone, in milliseconds, before another may begin beside it. Default 0. Flushes one after
   * the other are larger and cost less; one that hangs must not hold up all that come after it.
   */
  readonly overlapAfterMs?: number;
  /** Whose an item is: batches take from all owners in turn. Default: one owner, first in, first out. */
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
 * Gathers single calls into batches: an idle batcher flushes at the end of the tick, a busy one when a flush returns and
 * `gatherMs` are over, so batches grow with the load and an idle system waits for nothing.
 */
export function createMicroBatch<Item, Result>(
  options: MicroBatchOptions<Item, Result>,
): MicroBatch<Item, Result> {
  const waiting = createTurnQueue<Waiting<Item, Result>>();
  let flushing = 0;
  /** At the end of this tick. */
  let scheduled = false;
  let idle: PromiseWithResolvers<void> | undefined;
  let begunAt = Number.NEGATIVE_INFINITY;
  /** Runs while more is gathered, or the flush under way is waited for. */
  let pause: NodeJS.Timeout | undefined;
  const { gatherMs = 0, enough = options.itemsMax, overlapAfterMs = 0, ownerOf = () => '' } = options;
  const { weightOf = () => 0, weightMax = Number.POSITIVE_INFINITY } = options;

  function schedule(): void {
    if (scheduled || flushing >= options.flushesMax || waiting.size === 0) return;
    const restMs = begunAt + pauseMs() - performance.now();
    if (restMs > 0) {
      pause ??= setTimeout(flush, restMs);
      return;
    }
    scheduled = true;
    setImmediate(flush);
  }

  function pauseMs(): number {
    const gathering = waiting.size >= enough ? 0 : gatherMs;
    return flushing > 0 ? Math.max(overlapAfterMs, gathering) : gathering;
  }

  function flush(): void {
    scheduled = false;
    endPause();
    void flushOne();
  }

  function endPause(): void {
    clearTimeout(pause);
    pause = undefined;
  }

  /** Takes what fits: an item that is too heavy for the rest of the batch does not hold up other owners' lighter ones. */
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
      goOn();
      for (const [i, entry] of batch.entries()) entry.resolve(results[i] as Result);
    } catch (error) {
      goOn();
      for (const entry of batch) entry.reject(error);
    }
    if (flushing === 0 && waiting.size === 0) idle?.resolve();
  }

  /** A full batch is on its way before those who waited for this one go on: the database works while they are answered. */
  function goOn(): void {
    flushing--;
    endPause();
    if (flushing === 0 && !scheduled && waiting.size >= options.itemsMax) flush();
    else schedule();
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
