import type { DeliveryClaim } from './delivery-claim.ts';

/** A finished call. */
export type DeliveryAttempt = {
  /** Number of the event in the endpoint's feed. */
  readonly seq: number;
  /** From 1. */
  readonly attempt: number;
  readonly at: Date;
  readonly durationMs: number;
  /** Status code of the answer; null if none arrived. */
  readonly status: number | null;
  /** Why no answer arrived. */
  readonly error: string | null;
  /** The first KiB of the answer's body. */
  readonly answer: string | null;
  readonly succeeded: boolean;
};

/** The result of a claim. Events in neither `again` nor `uncalled` are done. */
export type DeliveryCompletion = {
  /** Without the events, so that results that wait to be recorded are small. */
  readonly claim: Omit<DeliveryClaim, 'events'>;
  /** Messages of its events. */
  readonly messages: readonly number[];
  readonly attempts: readonly DeliveryAttempt[];
  /** Events that get a row of their own. */
  readonly again: readonly {
    readonly seq: number;
    readonly attempts: number;
    /** `after_earlier`: when the earlier events of its message are done. */
    readonly dueAt: Date | 'after_earlier';
    readonly messageSeq: number | null;
  }[];
  /** Ranges of events for which no call was made, by first and last number; they become due again unchanged. */
  readonly uncalled: readonly { readonly first: number; readonly last: number }[];
};

/** Returns a completion as `complete_deliveries` takes it. @param now milliseconds since the epoch. */
export function completionRow(
  { claim, messages, attempts, again, uncalled }: DeliveryCompletion,
  now: number,
) {
  return {
    due_id: claim.dueId,
    claim: claim.claim,
    messages,
    attempts: attempts.map(({ durationMs, ...attempt }) => ({ ...attempt, duration_ms: durationMs })),
    again: again.map(({ seq, attempts: made, dueAt, messageSeq }) => ({
      seq,
      attempts: made,
      due_in_ms: dueAt === 'after_earlier' ? null : Math.max(0, dueAt.getTime() - now),
      message_seq: messageSeq,
    })),
    uncalled,
  };
}
