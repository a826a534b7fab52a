import { restBesideSendsMs } from '#core/domain/queue/rest-beside-sends.ts';
import { pause } from '#core/platform/process/pause.ts';

export type RestPaceDeps = {
  readonly isSending: () => boolean;
  /** Ends the pauses when aborted. */
  readonly signal: AbortSignal;
};

/** The facts of a batch that decide about its pause. */
type Rested = {
  /** The surplus part of the batch, from 0 to 1. */
  readonly surplus: number;
  /** The longest time that an entry of the batch had waited, in milliseconds. */
  readonly waitedMs: number;
};

/**
 * Runs a batch. While messages are sent, batches run one after the other, and a batch with surplus work is followed by a pause
 * that is left to messages.
 */
export type RestPace = <Batch>(
  run: () => Promise<Batch>,
  restedOf: (batch: Batch) => Rested,
) => Promise<Batch>;

export function createRestPace({ isSending, signal }: RestPaceDeps): RestPace {
  let last: Promise<void> = Promise.resolve();

  return async (run, restedOf) => {
    const before = last;
    const turn = Promise.withResolvers<void>();
    // Resolves to nothing: the values of all earlier batches would be kept otherwise.
    last = before.then(() => turn.promise);
    if (isSending()) await before;
    const startedAt = performance.now();
    let restMs = 0;
    try {
      const batch = await run();
      const { surplus, waitedMs } = restedOf(batch);
      const tookMs = (performance.now() - startedAt) * surplus;
      restMs = restBesideSendsMs({ kind: 'events', tookMs, isSending: isSending(), waitedMs });
      return batch;
    } finally {
      if (restMs === 0) turn.resolve();
      else void pause(restMs, signal).then(turn.resolve);
    }
  };
}
