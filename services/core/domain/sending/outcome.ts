import type { Failure } from './failure.ts';

/**
 * The outcome of one provider call. Expected results are values. A provider adapter that throws has a bug; the call is recorded
 * as `ambiguous`, because it is then unknown whether the request was sent.
 */
export type Outcome =
  | {
      readonly kind: 'accepted';
      /** The provider's id as an opaque string; null if it returns none. */
      readonly providerMessageId: string | null;
      readonly httpStatus?: number;
      /** The account's own sender, as the vendor reports it, for a message that names none. */
      readonly sender?: string;
      /** Only from a simulator: the receipts that follow. Real providers send theirs over HTTP. */
      readonly receipts?: readonly SimulatedReceipt[];
    }
  /** The message can never be accepted in this form; no retry. */
  | { readonly kind: 'rejected_permanent'; readonly failure: Failure }
  /** Certainly not accepted, but may be later. `retryAfterMs`: the wait that the provider requested. */
  | { readonly kind: 'rejected_transient'; readonly failure: Failure; readonly retryAfterMs?: number }
  /**
   * The request was sent and no reliable answer arrived, or only that of a gateway which got none: the provider may have accepted
   * the message or not.
   */
  | { readonly kind: 'ambiguous'; readonly failure: Failure };

/** Why a claimed attempt did not call the provider. None of these uses up a retry. */
export const NOT_STARTED_REASONS = [
  'breaker_open',
  'provider_rate',
  'shutdown',
  'credentials_unavailable',
  'content_unavailable',
  'lease_over',
] as const;
export type NotStartedReason = (typeof NOT_STARTED_REASONS)[number];
export type NotStarted = { readonly kind: 'not_started'; readonly reason: NotStartedReason };

export type AttemptOutcome = Outcome | NotStarted;

/** Outcomes of attempts in the record; `started` while the attempt is under way. */
export const ATTEMPT_OUTCOMES = [
  'started',
  'accepted',
  'rejected_permanent',
  'rejected_transient',
  'ambiguous',
  'not_started',
] as const satisfies readonly ('started' | AttemptOutcome['kind'])[];
export type RecordedOutcome = (typeof ATTEMPT_OUTCOMES)[number];

/** Receipt kinds in the order of their rank; a receipt only raises the rank of its message. */
export const RECEIPT_KINDS = ['sent', 'delivered', 'undelivered'] as const;
export type ReceiptKind = (typeof RECEIPT_KINDS)[number];

export type SimulatedReceipt = {
  readonly afterMs: number;
  readonly receipt: ReceiptKind;
  /** After a temporary failure the message may still be delivered. */
  readonly temporary?: boolean;
  readonly failure?: Failure;
};
