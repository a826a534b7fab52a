import { createTokenBucket, type Rate } from '../token-bucket.ts';

/** What the queue tells its metrics; times in seconds. */
export type WorkqueueMetrics = {
  readonly depth: (keys: number) => void;
  readonly added: () => void;
  readonly retried: () => void;
  readonly waited: (seconds: number) => void;
  readonly worked: (seconds: number) => void;
  /** Hands over what to ask at a scrape: the times of all work under way summed up, and the longest. */
  readonly running: (read: () => { readonly unfinished: number; readonly longest: number }) => void;
};

export type WorkqueueOptions = {
  readonly metrics?: WorkqueueMetrics;
  /** The delay after a key's first failure, doubled by each further one. Default 200 ms. */
  readonly retryMsMin?: number;
  /** Default 30 s: after an outage of any length a change is to be in force within a minute. */
  readonly retryMsMax?: number;
  /** Retries of all keys together: `burst` at once, then `perSecond`. Default 100 and 10. Other adds are not held back. */
  readonly retries?: Rate;
  /** Spreads retries over 80 to 100 % of their delay. */
  readonly random?: () => number;
};

/** Node fires at once for delays above it. Coming too early does no harm: a key only asks to be looked at. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Keys that want work. A key waits at most once, however often it is added; while a worker has it, adding it makes it
 * wait again after `done`. So no add is lost and no key is worked on twice at once.
 */
export type Workqueue = {
  readonly add: (key: string) => void;
  /** Adds it after the time. Of several delays the earliest counts. */
  readonly addAfter: (key: string, delayMs: number) => void;
  /** Adds it after its back-off, which grows with each call until `forget`. @returns the delay in milliseconds. */
  readonly addRateLimited: (key: string) => number;
  /** The next key, when there is one; undefined after the shutdown. Each key needs its `done`. */
  readonly get: () => Promise<string | undefined>;
  readonly done: (key: string) => void;
  /** Ends the back-off of a key that went well. */
  readonly forget: (key: string) => void;
  /** Keys that wait now, those with a delay left out. */
  readonly depth: () => number;
  /** Gives out nothing more: what waits is dropped, what is under way may end. */
  readonly shutdown: () => void;
};

export function createWorkqueue(options: WorkqueueOptions = {}): Workqueue {
  const { metrics, random = Math.random } = options;
  const { retryMsMin = 200, retryMsMax = 30_000, retries = { burst: 100, perSecond: 10 } } = options;
  /** Keys that want work, by when they began to; each waits or is under way. */
  const dirty = new Map<string, number>();
  /** Keys under way, by when a worker got them. */
  const processing = new Map<string, number>();
  /** Dirty keys that no worker has, in their order. */
  const waiting = new Set<string>();
  const idle: ((key: string | undefined) => void)[] = [];
  const delayed = new Map<string, { readonly at: number; readonly timer: NodeJS.Timeout }>();
  const failures = new Map<string, number>();
  const retryBucket = createTokenBucket(retries);
  let isShutDown = false;

  metrics?.running(() => {
    const now = performance.now();
    const seconds = [...processing.values()].map((since) => (now - since) / 1_000);
    return { unfinished: seconds.reduce((sum, one) => sum + one, 0), longest: Math.max(0, ...seconds) };
  });

  const hand = (key: string): void => {
    const now = performance.now();
    metrics?.waited((now - (dirty.get(key) ?? now)) / 1_000);
    dirty.delete(key);
    processing.set(key, now);
  };

  const enqueue = (key: string): void => {
    const worker = idle.shift();
    if (worker === undefined) {
      waiting.add(key);
      metrics?.depth(waiting.size);
      return;
    }
    hand(key);
    worker(key);
  };

  const add = (key: string): void => {
    if (isShutDown || dirty.has(key)) return;
    dirty.set(key, performance.now());
    metrics?.added();
    if (!processing.has(key)) enqueue(key);
  };

  const addAfter = (key: string, delayMs: number): void => {
    if (isShutDown) return;
    if (delayMs <= 0) return add(key);
    const at = performance.now() + delayMs;
    const before = delayed.get(key);
    if (before !== undefined && before.at <= at) return;
    clearTimeout(before?.timer);
    const timer = setTimeout(
      () => {
        delayed.delete(key);
        add(key);
      },
      Math.min(delayMs, TIMER_MS_MAX),
    );
    delayed.set(key, { at, timer });
  };

  return {
    add,
    addAfter,
    addRateLimited(key) {
      const count = failures.get(key) ?? 0;
      failures.set(key, count + 1);
      metrics?.retried();
      const backOff = Math.min(retryMsMax, retryMsMin * 2 ** Math.min(count, 30));
      const delayMs = Math.max(backOff * (0.8 + 0.2 * random()), retryBucket.take());
      addAfter(key, delayMs);
      return delayMs;
    },
    get() {
      if (isShutDown) return Promise.resolve(undefined);
      const [key] = waiting;
      if (key === undefined) return new Promise((resolve) => idle.push(resolve));
      waiting.delete(key);
      metrics?.depth(waiting.size);
      hand(key);
      return Promise.resolve(key);
    },
    done(key) {
      const since = processing.get(key);
      if (since === undefined) return;
      processing.delete(key);
      metrics?.worked((performance.now() - since) / 1_000);
      if (dirty.has(key)) enqueue(key);
    },
    forget: (key) => void failures.delete(key),
    depth: () => waiting.size,
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
