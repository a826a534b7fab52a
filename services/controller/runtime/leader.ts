/** Runs for the lease, and holds it. */
export type Elector = {
  readonly identity: string;
  /** Resolves when this process leads. Never rejects; pending for ever where it never does. */
  readonly elected: Promise<void>;
  /**
   * Whether this process may write now, by the clock alone: true only within the renew deadline of the last renewal, so
   * that a process that was stopped for a while knows before anything else runs.
   */
  readonly isLeading: () => boolean;
  /** Runs until the signal or until the lease is lost. */
  readonly run: (signal: AbortSignal) => Promise<'stopped' | 'lost'>;
  /** Gives the lease up, so that the next one need not wait for its end. Call it after the last write. */
  readonly release: () => Promise<void>;
};
