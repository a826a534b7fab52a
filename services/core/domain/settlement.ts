import type { FailoverFacts, Rerouted } from './failover.ts';
import type { Failure } from './failure.ts';
import type { MessageState } from './message-state.ts';
import type { SimulatedReceipt } from './outcome.ts';
import type { StatusReason } from './status-reason.ts';

/** What decides a message's future after an attempt, besides the attempt's outcome. */
export type AttemptedMessage = {
  /** Retries used so far: grows only with transient rejections of the message. */
  readonly retries: number;
  /** Ambiguous calls so far. */
  readonly ambiguous: number;
  /** Times it waited for the provider without using a retry. */
  readonly providerWaits: number;
  readonly duplicateRisk: boolean;
  readonly deliveryGuarantee: 'at_least_once' | 'at_most_once';
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  /** The provider's own guard against a second copy; with `lookup` it is asked before each repetition. */
  readonly dedupe: 'key' | 'lookup' | 'none';
  /** Whether the provider reports what became of a message after accepting it. */
  readonly receiptsExpected: boolean;
  /**
   * Whether the provider can be asked what became of a message: by its own id, or by our reference too. Default: neither.
   */
  readonly lookup?: 'id' | 'reference' | undefined;
  /**
   * The account that accepted it before and did not report on it in time, so that another one was called now. Default: none.
   */
  readonly sentBy?: string | undefined;
  /** How long its route waits for a receipt before another account sends it too. Default: no other one does. */
  readonly receiptTimeoutMs?: number | undefined;
  /** Through which accounts it may go; absent where it has to stay with its own. */
  readonly failover?: FailoverFacts | undefined;
};

/** The failure as the record shows it. */
export type StoredFailure = Omit<Failure, 'httpStatus'> & { readonly retryable: boolean };

export type Settlement = {
  readonly status: MessageState;
  readonly reason: StatusReason | null;
  readonly failure: StoredFailure | null;
  /** Milliseconds since the epoch; only for `deferred` and `queued`. */
  readonly nextAttemptAt: number | null;
  readonly retries: number;
  readonly ambiguous: number;
  readonly providerWaits: number;
  readonly duplicateRisk: boolean;
  /** Nothing more can happen to the message. */
  readonly final: boolean;
  /**
   * Until when a receipt is awaited before the provider is asked, or where it cannot be, before the message is `unknown`;
   * only for `sent`, and for `unknown` where the provider can be asked by our reference.
   */
  readonly awaitUntil: number | null;
  readonly receipts: readonly SimulatedReceipt[];
  /** Only for `sent`: so long is a receipt awaited before another account sends it too; null: no other one does. */
  readonly failoverMs: number | null;
  /** It is `sent` by the call that was accepted before, as this one was not. */
  readonly returned: boolean;
  /** Another account is to send it. */
  readonly rerouted: Rerouted | null;
  /** It stays with its account, or ends there, and others were passed over. */
  readonly stayed: Rerouted | null;
};
