import { doubledMs } from '#core/platform/process/pause.ts';
import { createTokenBucket, type Rate } from '../kube/token-bucket.ts';
import { createWaitingKeys, type Lane } from './waiting-keys.ts';

/** The metrics of a queue; times in seconds. */
export type WorkqueueMetrics = {
  readonly depth: (keys: number) => void;
  readonly added: () => void;
  readonly retried: () => void;
  readonly waited: (seconds: number) => void;
  readonly worked: (seconds: number) => void;
  /** Registers the callback of a scrape: the total and the longest time of the work in progress. */
  readonly running: (read: () => { readonly unfinished: number; readonly longest: number }) => void;
};

export type WorkqueueOptions = {
  readonly metrics?: WorkqueueMetrics;
  /**
   * Rate of all keys' retries together: `burst` at once, then `perSecond`. Default 100 and 10. Other adds are not limited, and no
   * retry waits for longer than `RETRY`'s maximum, however many keys fail.
   */
  readonly retries?: Rate;
  /** Spreads retries over 80 to 100 % of their delay. */
  readonly random?: () => number;
};

/**
 * The delay after a key's first failure, doubled by each further one up to the maximum: after an outage of any length a change must
 * be in force within a minute.
 */
const RETRY = { minMs: 200, maxMs: 30_000 };

/** Node fires immediately for longer delays. Firing early is harmless: the key is only reconciled once more. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * A queue of keys to reconcile. A key is queued at most once, however often it is added; if it is added while a worker has
 * it, it is queued again after `done`. So no add is lost and no key is processed twice at once.
 */
export type Workqueue = {
  /** @param lane decides which of several waiting keys is next. Default `change`. */
  readonly add: (key: string, lane?: Lane) => void;
  /** Adds the key as a routine one, unless it is in progress or delayed, so that its backoff holds. */
  readonly addIfIdle: (key: string) => void;
  /** Adds the key as a routine one after the delay. Of several delays the shortest wins. */
  readonly addAfter: (key: string, delayMs: number) => void;
  /** Adds the key as a change after its backoff, which grows with each call until `forget`. @returns the delay in milliseconds. */
  readonly addRateLimited: (key: string) => number;
  /** Resolves to the next key when there is one; undefined after the shutdown. Call `done` for each key. */
  readonly get: () => Promise<string | undefined>;
  readonly done: (key: string) => void;
  /** Resets the backoff of a key after a success. */
  readonly forget: (key: string) => void;
  /** Returns the number of queued keys, without delayed ones. */
  readonly depth: () => number;
  /** Hands out no more keys: queued keys are dropped, keys in progress may finish. */
  readonly shutdown: () => void;
};

export function createWorkqueue(options: WorkqueueOptions = {}): Workqueue {
  const { metrics, random = Math.random, retries = { burst: 100, perSecond: 10 } } = options;
  /** Keys to process, with the time when they were added and their lane; each one is queued or in progress. */
  const dirty = new Map<string, { readonly since: number; readonly lane: Lane }>();
  /** Keys in progress, with the time when a worker got them. */
  const processing = new Map<string, number>();
  /** Dirty keys that no worker has. */
  const waiting = createWaitingKeys();
  const idle: ((key: string | undefined) => void)[] = [];
  const delayed = new Map<string, { readonly at: number; readonly timer: NodeJS.Timeout }>();
  const failures = new Map<string, number>();
  const retryBucket = createTokenBucket(retries, RETRY.maxMs);
  let isShutDown = false;

  metrics?.running(() => {
    const now = performance.now();
    const seconds = [...processing.values()].map((since) => (now - since) / 1_000);
    return { unfinished: seconds.reduce((sum, one) => sum + one, 0), longest: Math.max(0, ...seconds) };
  });

  const hand = (key: string): void => {
    const now = performance.now();
    metrics?.waited((now - (dirty.get(key)?.since ?? now)) / 1_000);
    dirty.delete(key);
    processing.set(key, now);
  };

  const enqueue = (key: string, lane: Lane): void => {
    const worker = idle.shift();
    if (worker === undefined) {
      waiting.add(key, lane);
      metrics?.depth(waiting.size());
      return;
    }
    hand(key);
    worker(key);
  };

  const add = (key: string, lane: Lane = 'change'): void => {
    if (isShutDown) return;
    const known = dirty.get(key);
    if (known !== undefined) {
      if (lane === known.lane || lane === 'routine') return;
      dirty.set(key, { ...known, lane });
      if (!processing.has(key)) waiting.add(key, lane);
      return;
    }
    dirty.set(key, { since: performance.now(), lane });
    metrics?.added();
    if (!processing.has(key)) enqueue(key, lane);
  };

  const addLater = (key: string, delayMs: number, lane: Lane): void => {
    if (isShutDown) return;
    if (delayMs <= 0) return add(key, lane);
    const at = performance.now() + delayMs;
    const before = delayed.get(key);
    if (before !== undefined && before.at <= at) return;
    clearTimeout(before?.timer);
    const timer = setTimeout(
      () => {
        delayed.delete(key);
        add(key, lane);
      },
      Math.min(delayMs, TIMER_MS_MAX),
    );
    delayed.set(key, { at, timer });
  };

  return {
    add,
    addIfIdle(key) {
      if (!processing.has(key) && !delayed.has(key)) add(key, 'routine');
    },
    addAfter: (key, delayMs) => addLater(key, delayMs, 'routine'),
    addRateLimited(key) {
      const count = failures.get(key) ?? 0;
      failures.set(key, count + 1);
      metrics?.retried();
      const backOff = doubledMs(count, RETRY);
      const spread = 0.8 + 0.2 * random();
      const delayMs = Math.max(backOff * spread, Math.min(retryBucket.take(), RETRY.maxMs * spread));
      addLater(key, delayMs, 'change');
      return delayMs;
    },
    get() {
      if (isShutDown) return Promise.resolve(undefined);
      const key = waiting.take();
      if (key === undefined) return new Promise((resolve) => idle.push(resolve));
      metrics?.depth(waiting.size());
      hand(key);
      return Promise.resolve(key);
    },
    done(key) {
      const since = processing.get(key);
      if (since === undefined) return;
      processing.delete(key);
      metrics?.worked((performance.now() - since) / 1_000);
      const again = dirty.get(key);
      if (again !== undefined) enqueue(key, again.lane);
    },
    forget: (key) => void failures.delete(key),
    depth: waiting.size,
    shutdown() {
      isShutDown = true;
      for (const { timer } of delayed.values()) clearTimeout(timer);
      delayed.clear();
      dirty.clear();
      waiting.clear();
      metrics?.depth(0);
      for (const worker of idle.splice(0)) worker(undefined);
    },
  };
}
