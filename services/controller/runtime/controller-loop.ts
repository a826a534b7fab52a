import { randomUUID } from 'node:crypto';
import { refOf } from '../kube/kube-object.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { createWorkqueue, type Workqueue, type WorkqueueMetrics } from './workqueue.ts';

export type ReconcileResult = {
  /** Look again after this time even if nothing changes. */
  readonly requeueAfterMs?: number;
};

/**
 * Brings one object to its desired state. The key (`namespace/name` or `name`) is all it gets: it reads the object anew
 * and may find it gone. A key is never reconciled twice at once.
 *
 * Thrown errors are tried again with a growing delay, a `TerminalError` only when the object changes (or, where it says
 * so, after a time).
 * @param signal ends it: its time is up, the process stops for good or leads no longer. Pass it to every call.
 * @param log carries the controller, the object and an id of this pass.
 */
export type Reconcile = (key: string, signal: AbortSignal, log: Logger) => Promise<ReconcileResult>;

/** Trying again does not help: what is asked for is not possible. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError';
  /** When to look again all the same; default never. */
  readonly requeueAfterMs: number | undefined;

  constructor(message: string, options?: ErrorOptions & { readonly requeueAfterMs?: number }) {
    super(message, options);
    this.requeueAfterMs = options?.requeueAfterMs;
  }
}

/** A queue of keys and the workers that reconcile them. */
export type ControllerLoop = {
  readonly name: string;
  /** Asks for a pass over the object. Before the start and after the stop it does nothing: the start takes in all keys. */
  readonly enqueue: (key: string) => void;
  readonly enqueueAfter: (key: string, delayMs: number) => void;
  /** Takes in all keys and begins. The signal ends the passes under way. */
  readonly start: (signal: AbortSignal) => void;
  /** Takes in nothing more, and resolves when the passes under way have ended. */
  readonly stop: () => Promise<void>;
};

/** What the loop tells its metrics. */
export type ReconcileMetrics = {
  readonly concurrency: (controller: string, workers: number) => void;
  readonly started: (controller: string) => void;
  readonly finished: (
    controller: string,
    end: {
      readonly result: 'success' | 'requeue_after' | 'error';
      readonly isTerminal: boolean;
      readonly seconds: number;
    },
  ) => void;
};

export type ControllerLoopOptions = {
  /** Names it in logs and metrics, for example `tenant`. */
  readonly name: string;
  /** All objects there are, for the start. */
  readonly keys: () => Iterable<string>;
  readonly reconcile: Reconcile;
  readonly log: Logger;
  /** Passes at once. Default 4. */
  readonly workers?: number;
  /** The longest pass, in milliseconds. Default 60,000. */
  readonly timeoutMs?: number;
  /** False: no pass begins. Asked right before each, so that a process that was stopped for a while begins none. */
  readonly isLeading?: () => boolean;
  readonly metrics?: ReconcileMetrics;
  readonly queueMetrics?: WorkqueueMetrics;
};

export function createControllerLoop(options: ControllerLoopOptions): ControllerLoop {
  const { name, metrics, workers = 4 } = options;
  const queue = createWorkqueue(options.queueMetrics === undefined ? {} : { metrics: options.queueMetrics });
  let isStarted = false;
  let working: readonly Promise<void>[] = [];
  metrics?.concurrency(name, workers);

  return {
    name,
    enqueue(key) {
      if (isStarted) queue.add(key);
    },
    enqueueAfter(key, delayMs) {
      if (isStarted) queue.addAfter(key, delayMs);
    },
    start(signal) {
      isStarted = true;
      for (const key of options.keys()) queue.add(key);
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
    // A signal that was aborted is the end of everything; the queue is shut down in a moment.
    if (!signal.aborted && options.isLeading?.() !== false) await pass(queue, key, options, signal);
    queue.done(key);
  }
}

/** One reconcile and what follows from it. Never throws: one object's fault is not another's. */
async function pass(
  queue: Workqueue,
  key: string,
  options: ControllerLoopOptions,
  signal: AbortSignal,
): Promise<void> {
  const { name: controller, metrics, timeoutMs = 60_000 } = options;
  const log = options.log.child({ controller, ...refOf(key), reconcileId: randomUUID() });
  using limit = new Deadline(timeoutMs, {
    parent: signal,
    reason: () => new Error(`The reconcile took longer than ${timeoutMs} ms`),
  });
  const startedAt = performance.now();
  const finished = (result: 'success' | 'requeue_after' | 'error', isTerminal = false): void =>
    metrics?.finished(controller, { result, isTerminal, seconds: (performance.now() - startedAt) / 1_000 });
  metrics?.started(controller);
  try {
    const { requeueAfterMs } = await options.reconcile(key, limit.signal, log);
    queue.forget(key);
    if (requeueAfterMs !== undefined) queue.addAfter(key, requeueAfterMs);
    finished(requeueAfterMs === undefined ? 'success' : 'requeue_after');
    log.debug({ requeueAfterMs }, 'Reconciled');
  } catch (error) {
    if (error instanceof TerminalError) {
      queue.forget(key);
      if (error.requeueAfterMs !== undefined) queue.addAfter(key, error.requeueAfterMs);
      finished('error', true);
      log.error(
        { err: error, requeueAfterMs: error.requeueAfterMs },
        'Could not reconcile, and will not retry',
      );
      return;
    }
    finished('error');
    if (signal.aborted) {
      log.info({ err: error }, 'Left a reconcile unfinished');
      return;
    }
    const retryAfterMs = Math.round(queue.addRateLimited(key));
    log.warn({ err: error, retryAfterMs }, 'Could not reconcile, and will retry');
  }
}
