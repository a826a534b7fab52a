import type { Logger } from '#core/platform/logger.ts';

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
  /** Takes in all keys and begins. Passes are ended by the signal. */
  readonly start: (signal: AbortSignal) => void;
  /** Takes in nothing more, and resolves when the passes under way have ended. */
  readonly stop: () => Promise<void>;
};
