import { AMBIGUOUS_LOOKUP_MS, FIRST_LOOKUP_MS } from './decide-lookup.ts';
import { failOver, placeOf, reroutedTo } from './failover.ts';
import type { Failure } from './failure.ts';
import { assertMove } from './message-state.ts';
import type { AttemptOutcome, NotStartedReason } from './outcome.ts';
import type { AttemptedMessage, Settlement } from './settlement.ts';
import { deferral, failed, stored, type SettlementPart } from './settlement-part.ts';
import { AMBIGUOUS_RETRY_MS, retryDelayMs } from './retry.ts';

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
  const settlement = returned(decide(outcome, message, now, random), message);
  assertMove('sending', settlement.status);
  return settlement;
}

/**
 * What one account has accepted does not fail as another one refuses it: receipts of the call that was accepted still count, and
 * are waited for.
 */
function returned(settlement: Settlement, { sentBy, failover }: AttemptedMessage): Settlement {
  if (sentBy === undefined || settlement.status !== 'failed') return settlement;
  const to = { accountId: sentBy, skipped: settlement.stayed?.skipped ?? [] };
  return {
    ...settlement,
    status: 'sent',
    reason: 'no_other_account',
    final: false,
    returned: true,
    rerouted: failover === undefined ? { ...to, version: 0 } : reroutedTo(to, failover.route),
    stayed: null,
  };
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
    failoverMs: null,
    returned: false,
    rerouted: null,
    stayed: null,
  } as const;
  switch (outcome.kind) {
    case 'accepted':
      return {
        ...base,
        status: 'sent',
        final: !isAwaited(message),
        awaitUntil: isAwaited(message) ? now + firstLookMs(message) : null,
        receipts: outcome.receipts ?? [],
        failoverMs: mayGoOn(message) ? (message.receiptTimeoutMs ?? null) : null,
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

/** The account that accepted it before reports on it, whether this one does or not. */
function isAwaited({ receiptsExpected, sentBy }: AttemptedMessage): boolean {
  return receiptsExpected || sentBy !== undefined;
}

/** Whether another account may send it too if no receipt comes: where none can come, that would say nothing. */
function mayGoOn({ receiptsExpected, deliveryGuarantee, ambiguous }: AttemptedMessage): boolean {
  // Tests break this (mutant: once-settled): what is to be called once at most goes out through one account.
  return receiptsExpected && deliveryGuarantee === 'at_least_once' && ambiguous === 0;
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
      final: !isAwaited(message) && awaitUntil === null,
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
