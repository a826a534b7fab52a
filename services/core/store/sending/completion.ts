import type { CallEnd } from '#core/domain/sending/call-end.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import type { SuppressionCause } from '#core/domain/recipient/suppression-cause.ts';
import type { Json } from '#core/platform/postgres/postgres.ts';

/** How an attempt ended and what follows, in the names that `complete` reads. Undefined fields are not sent. */
export type Completion = {
  readonly seq: number;
  readonly purge_on: string;
  readonly attempt: number;
  readonly outcome: string;
  readonly outcome_reason: string | undefined;
  readonly failure: Json | undefined;
  readonly http_status: number | undefined;
  readonly provider_message_id: string | undefined;
  readonly found_by_id: true | undefined;
  readonly sent_from: string | undefined;
  readonly status: MessageState;
  readonly reason: string | undefined;
  readonly failure_shown: Json | undefined;
  readonly rerouted: Json | undefined;
  /** Only with `rerouted`. */
  readonly called_account: string | undefined;
  readonly next_attempt_ms: number | undefined;
  readonly retries: number;
  readonly ambiguous: number;
  readonly provider_waits: number;
  readonly duplicate_risk: boolean;
  readonly final: boolean;
  readonly await_ms: number | undefined;
  readonly failover_ms: number | undefined;
  /** Whether the message returns to `sent` through an earlier call, because this one was not accepted. */
  readonly returns: true | undefined;
  readonly receipts: Json | undefined;
  readonly discard: boolean;
  /**
   * Whether the call speaks for or against its account, and its duration in whole milliseconds; both absent if no call was made.
   */
  readonly call_end?: CallEnd;
  readonly call_ms?: number;
  /** Why the recipient is to be suppressed. */
  readonly suppress?: SuppressionCause | undefined;
};
