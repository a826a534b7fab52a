import { randomUUID } from 'node:crypto';
import { parseKey } from '../kube/kube-object.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { createWorkqueue, type Workqueue, type WorkqueueMetrics } from './workqueue.ts';

export type ReconcileResult = {
  /** Reconcile again after this time even if nothing changes. */
  readonly requeueAfterMs?: number;
};

/**
 * Brings one object to its desired state. It gets only the key (`namespace/name` or `name`), reads the object again and may
 * find it gone. A key is never reconciled twice at once.
 *
 * Thrown errors are retried with a growing delay.
 * @param signal aborts when the pass exceeds its time, or when the process stops or no longer leads. Pass it to every call.
 * @param log carries the controller, the object and an id of this pass.
 */
export type Reconcile = (key: string, signal: AbortSignal, log: Logger) => Promise<ReconcileResult>;

/** A queue of keys and the workers that reconcile them. */
export type ControllerLoop = {
  readonly name: string;
  /** Requests a pass over a changed object. Has no effect before `start`, which enqueues all keys, and after `stop`. */
  readonly enqueue: (key: string) => void;
  /** The same for a pass that may wait for those over changed objects, as one of thousands that are requested together. */
  readonly enqueueRoutine: (key: string) => void;
  /** Requests a routine pass over the object unless it has one or waits for its next one: for a poll, which repeats itself. */
  readonly enqueueIfIdle: (key: string) => void;
  /** Enqueues all keys and starts the workers. The signal aborts the passes in progress. */
  readonly start: (signal: AbortSignal) => void;
  /** Stops taking keys, and resolves when the passes in progress have ended. */
  readonly stop: () => Promise<void>;
};

/** The metrics of a loop. */
export type ReconcileMetrics = {
  readonly concurrency: (controller: string, workers: number) => void;
  readonly started: (controller: string) => void;
  readonly finished: (
    controller: string,
    end: {
      readonly result: 'success' | 'requeue_after' | 'error';
      readonly seconds: number;
    },
  ) => void;
};

export type ControllerLoopOptions = {
  /** The loop's name in logs and metrics, for example `tenant`. */
  readonly name: string;
  /** All existing objects, for the start. */
  readonly keys: () => Iterable<string>;
  readonly reconcile: Reconcile;
  readonly log: Logger;
  /** Concurrent passes. */
  readonly workers: number;
  /** Maximum duration of a pass, in milliseconds. */
  readonly timeoutMs: number;
  /** False: no pass starts. Called right before each pass, so that a process that was suspended for a while starts none. */
  readonly isLeading: () => boolean;
  readonly metrics: ReconcileMetrics;
  readonly queueMetrics: WorkqueueMetrics;
};

export function createControllerLoop(options: ControllerLoopOptions): ControllerLoop {
  const { name, metrics, workers } = options;
  const queue = createWorkqueue({ metrics: options.queueMetrics });
  let isStarted = false;
  let working: readonly Promise<void>[] = [];
  metrics.concurrency(name, workers);

  return {
    name,
    enqueue(key) {
      if (isStarted) queue.add(key);
    },
    enqueueRoutine(key) {
      if (isStarted) queue.add(key, 'routine');
    },
    enqueueIfIdle(key) {
      if (isStarted) queue.addIfIdle(key);
    },
    start(signal) {
      isStarted = true;
      for (const key of options.keys()) queue.add(key, 'routine');
      working = Array.from({ length: workers }, () => work(queue, options, signal));
    },
    async stop() {
      queue.shutdown();
      await Promise.all(working);
    },
  };
}

async function work(queue: Workqueue, options: ControllerLoopOptions, signal: AbortSignal): Promise<void> {
  for (let key = await queue.get(); key !== undefined; key = await queue.get()) {
    // After an abort the queue is about to be shut down.
    if (!signal.aborted && options.isLeading()) await pass(queue, key, options, signal);
    queue.done(key);
  }
}

/** Runs one reconcile and handles its result. Never throws: one object's failure does not affect others. */
async function pass(
  queue: Workqueue,
  key: string,
  options: ControllerLoopOptions,
  signal: AbortSignal,
): Promise<void> {
  const { name: controller, metrics, timeoutMs } = options;
  const log = options.log.child({ controller, ...parseKey(key), reconcileId: randomUUID() });
  using limit = new Deadline(timeoutMs, {
    parent: signal,
    reason: () => new Error(`The reconcile took longer than ${timeoutMs} ms`),
  });
  const startedAt = performance.now();
  const finished = (result: 'success' | 'requeue_after' | 'error'): void =>
    metrics.finished(controller, { result, seconds: (performance.now() - startedAt) / 1_000 });
  metrics.started(controller);
  try {
    const { requeueAfterMs } = await options.reconcile(key, limit.signal, log);
    queue.forget(key);
    if (requeueAfterMs !== undefined) queue.addAfter(key, requeueAfterMs);
    finished(requeueAfterMs === undefined ? 'success' : 'requeue_after');
    log.debug({ requeueAfterMs }, 'Reconciled');
  } catch (error) {
    finished('error');
    if (signal.aborted) {
      log.info({ err: error }, 'Left a reconcile unfinished');
      return;
    }
    const retryAfterMs = Math.round(queue.addRateLimited(key));
    log.warn({ err: error, retryAfterMs }, 'Could not reconcile, and will retry');
  }
}
