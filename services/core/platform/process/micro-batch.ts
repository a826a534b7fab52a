import { createTurnQueue } from '#core/domain/queue/turn-queue.ts';

/** Thrown by `add` when the bounded queue is full: the caller should shed the load, not wait. */
export class QueueFullError extends Error {
  override readonly name = 'QueueFullError';
}

export type MicroBatch<Item, Result> = {
  /**
   * Adds an item to a batch and returns its result.
   * @throws QueueFullError at once if `queuedMax` items are waiting; else the error of `flush`.
   */
  add(item: Item): Promise<Result>;
  /** Resolves when everything added so far has been flushed. */
  drain(): Promise<void>;
  readonly queued: number;
};

export type MicroBatchOptions<Item, Result> = {
  /** Settles a batch: returns one result per item, in order. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly itemsMax: number;
  /** Maximum number of concurrent flushes. */
  readonly flushesMax: number;
  readonly queuedMax: number;
  /**
   * Minimum time between the beginnings of two flushes, in milliseconds, unless `enough` items wait. Default 0. Under load,
   * batches grow to what arrives in that time; a single item, or the first one, is flushed at the end of the tick.
   */
  readonly gatherMs?: number;
  /** With this many waiting items, the flush does not wait for more. Default `itemsMax`. */
  readonly enough?: number;
  /**
   * How long the latest flush runs alone, in milliseconds, before another may begin beside it. Default 0. Consecutive flushes are
   * larger and cost less, but one that hangs must not block all later ones.
   */
  readonly overlapAfterMs?: number;
  /** Returns the owner of an item: batches take items from all owners in turn. Default: one owner, first in, first out. */
  readonly ownerOf?: (item: Item) => string;
  /** Returns the weight of an item, for example its bytes, if batches are bounded by weight too. Default: zero. */
  readonly weightOf?: (item: Item) => number;
  /** Maximum weight of a batch; an item that is heavier by itself forms a batch of its own. Default: no bound. */
  readonly weightMax?: number;
};

type Waiting<Item, Result> = {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

/**
 * Creates a batcher that gathers single calls into batches. When idle it flushes at the end of the tick; when busy, after a flush
 * returns and `gatherMs` have passed. Batches thus grow with the load, and an idle system adds no delay.
 */
export function createMicroBatch<Item, Result>(
  options: MicroBatchOptions<Item, Result>,
): MicroBatch<Item, Result> {
  const waiting = createTurnQueue<Waiting<Item, Result>>();
  let flushing = 0;
  /** Flushes at the end of this tick. */
  let atOnce: NodeJS.Immediate | undefined;
  let idle: PromiseWithResolvers<void> | undefined;
  let begunAt = Number.NEGATIVE_INFINITY;
  /** Runs while items are gathered, or while the flush under way is waited for. */
  let pause: NodeJS.Timeout | undefined;
  const { gatherMs = 0, enough = options.itemsMax, overlapAfterMs = 0, ownerOf = () => '' } = options;
  const { weightOf = () => 0, weightMax = Number.POSITIVE_INFINITY } = options;

  function schedule(): void {
    if (atOnce !== undefined || flushing >= options.flushesMax || waiting.size === 0) return;
    const restMs = begunAt + pauseMs() - performance.now();
    if (restMs > 0) {
      pause ??= setTimeout(flush, restMs);
      return;
    }
    atOnce = setImmediate(flush);
  }

  function pauseMs(): number {
    const gathering = waiting.size >= enough ? 0 : gatherMs;
    return flushing > 0 ? Math.max(overlapAfterMs, gathering) : gathering;
  }

  function flush(): void {
    // The pause may have ended in the same turn of the event loop: both would flush.
    clearImmediate(atOnce);
    atOnce = undefined;
    endPause();
    void flushOne();
  }

  function endPause(): void {
    clearTimeout(pause);
    pause = undefined;
  }

  /** Takes the items that fit: one that is too heavy for the rest of the batch does not block lighter items of other owners. */
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

  /** Starts a full batch before the callers of this one continue, so that the database works while they are answered. */
  function goOn(): void {
    flushing--;
    endPause();
    if (flushing === 0 && atOnce === undefined && waiting.size >= options.itemsMax) flush();
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
