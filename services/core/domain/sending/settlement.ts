import type { FailoverFacts, Rerouted } from '../routing/failover.ts';
import type { Failure } from './failure.ts';
import type { MessageState } from '../message/message-state.ts';
import type { SimulatedReceipt } from './outcome.ts';
import type { StatusReason } from '../message/status-reason.ts';

/** The facts besides the attempt's outcome that decide what happens to a message. */
export type AttemptedMessage = {
  /** Retries used so far; only transient rejections of the message increment it. */
  readonly retries: number;
  /** Ambiguous calls so far. */
  readonly ambiguous: number;
  /** How often it waited for the provider without using up a retry. */
  readonly providerWaits: number;
  readonly duplicateRisk: boolean;
  readonly deliveryGuarantee: 'at_least_once' | 'at_most_once';
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  /** How the provider prevents duplicates; with `lookup` it is asked before each repetition. */
  readonly dedupe: 'key' | 'lookup' | 'none';
  /**
   * Only with `key`: until when the provider remembers the key of the first ambiguous call, or of this one; milliseconds since the
   * epoch. Default: for as long as the message can wait.
   */
  readonly keyKnownUntil?: number | undefined;
  /** Whether the provider reports on a message after accepting it. */
  readonly receiptsExpected: boolean;
  /** Whether the provider can be asked about a message: by its own id, or by our reference too. Default: neither. */
  readonly lookup?: 'id' | 'reference' | undefined;
  /**
   * The account that accepted the message before and did not report in time, so that another one was called now. Default: none.
   */
  readonly sentBy?: string | undefined;
  /** How long its route waits for a receipt before another account sends the message too. Default: no other account does. */
  readonly receiptTimeoutMs?: number | undefined;
  /** Facts about the accounts that it may use; absent if it must stay with its own. */
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
  /** Whether the state of the message can no longer change. */
  readonly final: boolean;
  /**
   * Until when a receipt is awaited before the provider is asked, or, if it cannot be asked, before the message becomes
   * `unknown`. Only for `sent`, and for `unknown` if the provider can be asked by our reference.
   */
  readonly awaitUntil: number | null;
  readonly receipts: readonly SimulatedReceipt[];
  /** Only for `sent`: how long a receipt is awaited before another account sends the message too; null: no other account does. */
  readonly failoverMs: number | null;
  /** The message returns to `sent` by an earlier accepted call, because this call was not accepted. */
  readonly returned: boolean;
  /** Another account sends the message. */
  readonly rerouted: Rerouted | null;
  /** The message stays with its account, or ends there, after others were skipped. */
  readonly stayed: Rerouted | null;
};
