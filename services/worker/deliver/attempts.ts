import type { AttemptOutcome } from '#core/domain/outcome.ts';
import type { Settlement } from '#core/domain/settle.ts';
import { withSpan } from '#core/platform/telemetry/telemetry.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';
import type { Delivered } from './deliver.ts';
import { processSpan } from './process-span.ts';
import type { Recorder } from './recorder.ts';

export type AttemptsDeps = {
  readonly deliver: (message: ClaimedMessage) => Promise<Delivered>;
  readonly recorder: Pick<Recorder, 'record'>;
  readonly events: {
    attemptFinished(message: ClaimedMessage, delivered: Delivered, settlement: Settlement | null): void;
    recordLost(message: ClaimedMessage, error: unknown): void;
  };
};

/** The attempts that this process has in hand, from their claim until they are recorded. */
export type Attempts = {
  /**
   * @returns false where the attempt is ours already, under way or given up unrecorded: it must not begin again.
   * @param ended called when it is no longer in hand; `settlement` is null if another attempt had replaced it.
   */
  begin(message: ClaimedMessage, ended: (settlement: Settlement | null) => void): boolean;
  has(seq: number): boolean;
  /** A copy of those in hand now. */
  seqs(): ReadonlySet<number>;
  readonly size: number;
};

export function createAttempts({ deliver, recorder, events }: AttemptsDeps): Attempts {
  const inHand = new Set<number>();
  /** Attempts that ended and could not be recorded. They must not begin again, though the database shows them as begun. */
  const unrecorded = new Set<string>();

  async function run(message: ClaimedMessage): Promise<Settlement | null> {
    // Tests break this (mutant: lost-call): a lost worker's call counts as perhaps made.
    const delivered: Delivered =
      message.action === 'lost' ? { outcome: WORKER_LOST, provider: undefined } : await deliver(message);
    const settlement = await recorder.record(
      message,
      delivered.outcome,
      delivered.provider,
      delivered.receiptsExpected,
    );
    events.attemptFinished(message, delivered, settlement);
    return settlement;
  }

  return {
    begin(message, ended) {
      const attempt = attemptOf(message);
      if (inHand.has(message.seq) || (message.action === 'send' && unrecorded.has(attempt))) return false;
      inHand.add(message.seq);
      unrecorded.delete(attempt);
      void withSpan('process message', processSpan(message), () => run(message))
        .catch((error: unknown) => {
          unrecorded.add(attempt);
          events.recordLost(message, error);
          return null;
        })
        .then((settlement) => {
          inHand.delete(message.seq);
          ended(settlement);
        });
      return true;
    },
    has: (seq) => inHand.has(seq),
    seqs: () => new Set(inHand),
    get size() {
      return inHand.size;
    },
  };
}

const attemptOf = ({ seq, attempt }: ClaimedMessage): string => `${seq} ${attempt}`;

/** The process that made the attempt is gone: nobody knows whether the provider got the message. */
const WORKER_LOST: AttemptOutcome = { kind: 'ambiguous', failure: { class: 'unknown', code: 'worker_lost' } };
