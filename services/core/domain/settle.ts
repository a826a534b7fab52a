import { AMBIGUOUS_LOOKUP_MS, FIRST_LOOKUP_MS } from './decide-lookup.ts';
import { failOver, placeOf, type FailoverFacts, type Rerouted } from './failover.ts';
import type { Failure } from './failure.ts';
import { assertMove, type MessageState } from './message-state.ts';
import type { AttemptOutcome, SimulatedReceipt, NotStartedReason } from './outcome.ts';
import { deferral, failed, stored, type SettlementPart } from './settlement-part.ts';
import type { StatusReason } from './status-reason.ts';
import { AMBIGUOUS_RETRY_MS, retryDelayMs } from './retry.ts';

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
  /** Another account is to send it. */
  readonly rerouted: Rerouted | null;
  /** It stays with its account, or ends there, and others were passed over. */
  readonly stayed: Rerouted | null;
};

/** A provider that reports at all has done so after three days; then the message is `unknown`. */
export const RECEIPT_TIMEOUT_MS = 72 * 3_600_000;

const NOT_STARTED_DELAY_MS: Readonly<Record<NotStartedReason, number>> = {
  shutdown: 0,
  lease_over: 0,
  provider_rate: 1_000,
  credentials_unavailable: 2_000,
  content_unavailable: 2_000,
  breaker_open: 5_000,
};

/**
 * Decides what an attempt's outcome means for its message.
 * @param now milliseconds since the epoch. @param random uniform in [0, 1), spreads retries.
 */
export function settle(
  outcome: AttemptOutcome,
  message: AttemptedMessage,
  now: number,
  random: number,
): Settlement {
  const settlement = decide(outcome, message, now, random);
  assertMove('sending', settlement.status);
  return settlement;
}

function decide(outcome: AttemptOutcome, message: AttemptedMessage, now: number, random: number): Settlement {
  const base = {
    reason: null,
    failure: null,
    nextAttemptAt: null,
    retries: message.retries,
    ambiguous: message.ambiguous,
    providerWaits: message.providerWaits,
    duplicateRisk: message.duplicateRisk,
    final: false,
    awaitUntil: null,
    receipts: [],
    rerouted: null,
    stayed: null,
  } as const;
  switch (outcome.kind) {
    case 'accepted':
      return {
        ...base,
        status: 'sent',
        final: !message.receiptsExpected,
        awaitUntil: message.receiptsExpected ? now + firstLookMs(message) : null,
        receipts: outcome.receipts ?? [],
      };
    case 'rejected_permanent':
      return { ...base, ...(elsewhere(outcome, message, now, random) ?? failed(outcome.failure)) };
    case 'rejected_transient':
      return {
        ...base,
        ...(elsewhere(outcome, message, now, random) ??
          deferral(outcome.failure, outcome.retryAfterMs, message, now, random)),
      };
    case 'ambiguous':
      // Tests break this (mutant: ambiguous-stays): what may have gone out stays with its account.
      return { ...base, ...ambiguity(outcome.failure, message, now, random) };
    case 'not_started':
      return {
        ...base,
        status: 'queued',
        reason: outcome.reason,
        nextAttemptAt: now + Math.round(NOT_STARTED_DELAY_MS[outcome.reason] * (1 + random)),
      };
  }
}

function firstLookMs({ lookup }: AttemptedMessage): number {
  return lookup === undefined ? RECEIPT_TIMEOUT_MS : FIRST_LOOKUP_MS;
}

/** What another account of the route makes of a refusal; undefined where it counts as if there were none. */
function elsewhere(
  outcome: Extract<AttemptOutcome, { kind: 'rejected_permanent' | 'rejected_transient' }>,
  message: AttemptedMessage,
  now: number,
  random: number,
): SettlementPart | undefined {
  const { failover } = message;
  const { failure } = outcome;
  // A copy that may have gone out is never sent through another account too.
  if (failover === undefined || message.ambiguous > 0) return undefined;
  const isPermanent = outcome.kind === 'rejected_permanent';
  const decision = failOver({ isPermanent, class: failure.class }, failover);
  if (decision === undefined) return undefined;
  const place = placeOf(decision, failover);
  if (decision.kind === 'none') return { ...failed(failure), ...place };
  if (decision.kind === 'next') {
    return {
      status: 'deferred',
      reason: 'failed_over',
      failure: stored(failure, true),
      nextAttemptAt: now,
      ...place,
    };
  }
  const retryAfterMs = outcome.kind === 'rejected_transient' ? outcome.retryAfterMs : undefined;
  const wait = deferral({ ...failure, class: decision.waitsFor }, retryAfterMs, message, now, random);
  const shown = { ...wait, failure: stored(failure, true) };
  // One that ends, as no time is left, goes nowhere.
  return wait.status === 'deferred' ? { ...shown, ...place } : shown;
}

function ambiguity(failure: Failure, message: AttemptedMessage, now: number, random: number): SettlementPart {
  const guarded = message.dedupe !== 'none';
  const mayRepeat = guarded || (message.deliveryGuarantee === 'at_least_once' && message.ambiguous === 0);
  const nextAttemptAt =
    now +
    Math.max(
      message.dedupe === 'lookup' ? AMBIGUOUS_LOOKUP_MS : AMBIGUOUS_RETRY_MS,
      guarded ? retryDelayMs(message.retries, random) : 0,
    );
  const counted = { ambiguous: message.ambiguous + 1, failure: stored(failure, true) };
  if (!mayRepeat || nextAttemptAt >= message.expiresAt) {
    const awaitUntil = message.lookup === 'reference' ? now + AMBIGUOUS_LOOKUP_MS : null;
    return {
      ...counted,
      status: 'unknown',
      reason: 'ambiguous_attempt',
      nextAttemptAt: null,
      awaitUntil,
      // Nobody is left who could tell.
      final: !message.receiptsExpected && awaitUntil === null,
    };
  }
  return {
    ...counted,
    status: 'deferred',
    reason: 'ambiguous_attempt',
    nextAttemptAt,
    retries: message.retries + 1,
    duplicateRisk: message.duplicateRisk || !guarded,
  };
}
