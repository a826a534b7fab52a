import type { Failure } from './failure.ts';

/**
 * How one call to a provider ended. Expected results are values; a provider adapter that throws has a bug and is
 * recorded as `ambiguous`, because nobody then knows whether bytes left.
 */
export type Outcome =
  | {
      readonly kind: 'accepted';
      /** The provider's id as an opaque string, null where it gives none. */
      readonly providerMessageId: string | null;
      readonly httpStatus?: number;
      /** The account's own sender that was used for a message which names none, as the vendor knows it. */
      readonly sender?: string;
      /** Only of a simulator: the receipts that follow. Real providers send theirs over HTTP. */
      readonly receipts?: readonly SimulatedReceipt[];
    }
  /** The message can never be accepted as it is; no retry. */
  | { readonly kind: 'rejected_permanent'; readonly failure: Failure }
  /** Certainly not accepted, may be later. `retryAfterMs` is the provider's own wish. */
  | { readonly kind: 'rejected_transient'; readonly failure: Failure; readonly retryAfterMs?: number }
  /** Bytes left and no trustworthy answer came: the provider may or may not have accepted. */
  | { readonly kind: 'ambiguous'; readonly failure: Failure };

/** Why a claimed attempt never called the provider. None of these uses a retry. */
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

/** An attempt as the record shows it; `started` while it is under way. */
export const ATTEMPT_OUTCOMES = [
  'started',
  'accepted',
  'rejected_permanent',
  'rejected_transient',
  'ambiguous',
  'not_started',
] as const satisfies readonly ('started' | AttemptOutcome['kind'])[];
export type RecordedOutcome = (typeof ATTEMPT_OUTCOMES)[number];

/** Receipt kinds in the rank order of the rank-guarded projection. */
export const RECEIPT_KINDS = ['sent', 'delivered', 'undelivered'] as const;
export type ReceiptKind = (typeof RECEIPT_KINDS)[number];

export type SimulatedReceipt = {
  readonly afterMs: number;
  readonly receipt: ReceiptKind;
  /** Temporary failures may still turn into delivered. */
  readonly temporary?: boolean;
  readonly failure?: Failure;
};
