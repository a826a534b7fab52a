import { LRUCache } from 'lru-cache';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { Settlement } from '#core/domain/sending/settlement.ts';
import { withSpan } from '#core/platform/telemetry/telemetry.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import { findProvider } from '#providers/registry.ts';
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
   * Begins an attempt. A later attempt of the same message may begin while the earlier one is in hand: the message could be
   * claimed only because the earlier attempt's record is committed, and the answer to that commit is still on its way.
   * @returns false if the attempt already belongs to this process, under way or given up unrecorded: it must not begin again.
   * @param ended called when the attempt is no longer in hand; `settlement` is null if another attempt had replaced it.
   */
  begin(message: ClaimedMessage, ended: (settlement: Settlement | null) => void): boolean;
  has(seq: number): boolean;
  /** Returns a copy: the attempt number in hand for each message `seq`. */
  inHand(): ReadonlyMap<number, number>;
  readonly size: number;
};

/**
 * Far more than the attempts that can be given up within a lease; after its lease an attempt cannot begin again in this process.
 */
const UNRECORDED_MAX = 100_000;

export function createAttempts({ deliver, recorder, events }: AttemptsDeps): Attempts {
  const inHand = new Map<number, number>();
  /** Attempts that ended and could not be recorded. They must not begin again, although the database shows them as begun. */
  const unrecorded = new LRUCache<string, true>({ max: UNRECORDED_MAX });

  async function run(message: ClaimedMessage): Promise<Settlement | null> {
    // Tests break this (mutant: lost-call): a call of a lost worker counts as possibly made.
    const delivered: Delivered =
      message.action === 'lost'
        ? // The provider's answer or a receipt may still arrive.
          { outcome: WORKER_LOST, provider: findProvider(message.provider), receiptsExpected: true }
        : await deliver(message);
    const settlement = await recorder.record(message, delivered);
    events.attemptFinished(message, delivered, settlement);
    return settlement;
  }

  return {
    begin(message, ended) {
      const { seq, attempt } = message;
      const earlier = inHand.get(seq);
      if (earlier !== undefined && (message.action === 'lost' || earlier >= attempt)) return false;
      // The set is usually empty; checking that first avoids building the key.
      if (unrecorded.size > 0) {
        const key = attemptKey(message);
        if (message.action === 'send' && unrecorded.has(key)) return false;
        unrecorded.delete(key);
      }
      inHand.set(seq, attempt);
      const end = (settlement: Settlement | null): void => {
        if (inHand.get(seq) === attempt) inHand.delete(seq);
        ended(settlement);
      };
      void withSpan('process message', processSpan(message), () => run(message)).then(
        end,
        (error: unknown) => {
          unrecorded.set(attemptKey(message), true);
          events.recordLost(message, error);
          end(null);
        },
      );
      return true;
    },
    has: (seq) => inHand.has(seq),
    inHand: () => new Map(inHand),
    get size() {
      return inHand.size;
    },
  };
}

const attemptKey = ({ seq, attempt }: ClaimedMessage): string => `${seq} ${attempt}`;

/**
 * The process that made the attempt is gone, so it is unknown whether the provider got the message. The provider is known, and
 * with it whether it deduplicates.
 */
const WORKER_LOST: AttemptOutcome = { kind: 'ambiguous', failure: { class: 'unknown', code: 'worker_lost' } };
