import { ambiguity, isAwaited, unknownIfMaybeSent } from './ambiguity.ts';
import { FIRST_LOOKUP_MS } from '../receipts/decide-lookup.ts';
import { HOUR_MS } from '../text/duration.ts';
import { failOver, moveOf, reroutedTo, type Failover, type FailoverFacts } from '../routing/failover.ts';
import { assertMove } from '../message/message-state.ts';
import type { AttemptOutcome, NotStartedReason } from './outcome.ts';
import type { AttemptedMessage, Settlement } from './settlement.ts';
import { deferral, failed, stored, type SettlementPart } from './settlement-part.ts';

/** A provider that sends reports has done so after three days; after that the message is `unknown`. */
export const RECEIPT_TIMEOUT_MS = 72 * HOUR_MS;

const NOT_STARTED_DELAY_MS: Readonly<Record<NotStartedReason, number>> = {
  shutdown: 0,
  lease_over: 0,
  provider_rate: 1_000,
  credentials_unavailable: 2_000,
  content_unavailable: 2_000,
  breaker_open: 5_000,
};
/**
 * Shortest wait of a message that has expired by the worker's clock: if that clock is ahead of the database's, the message could
 * otherwise be claimed again and again until both agree.
 */
const EXPIRED_DELAY_MS = 1_000;

/**
 * Decides what an attempt's outcome means for its message.
 * @param now milliseconds since the epoch.
 * @param random uniform in [0, 1), spreads retries.
 */
export function settle(
  outcome: AttemptOutcome,
  message: AttemptedMessage,
  now: number,
  random: number,
): Settlement {
  const settlement = unknownIfMaybeSent(
    returned(decide(outcome, message, now, random), message),
    outcome,
    message,
    now,
  );
  assertMove('sending', settlement.status);
  return settlement;
}

/**
 * Returns a message to `sent` if one account has accepted it before and another one refuses it: the receipts of the accepted call
 * still count and are awaited.
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
      // Tests break this (mutant: ambiguous-stays): a message that may have been sent stays with its account.
      return { ...base, ...ambiguity(outcome.failure, message, now, random) };
    case 'not_started':
      return {
        ...base,
        status: 'queued',
        reason: outcome.reason,
        nextAttemptAt: now + Math.round(notStartedDelayMs(outcome.reason, message, now) * (1 + random)),
      };
  }
}

function notStartedDelayMs(reason: NotStartedReason, { expiresAt }: AttemptedMessage, now: number): number {
  const delayMs = NOT_STARTED_DELAY_MS[reason];
  return now < expiresAt ? delayMs : Math.max(delayMs, EXPIRED_DELAY_MS);
}

/**
 * Whether another account may send the message as well if no receipt comes. If the provider sends none, a missing receipt means
 * nothing.
 */
function mayGoOn({ receiptsExpected, deliveryGuarantee, ambiguous }: AttemptedMessage): boolean {
  // Tests break this (mutant: once-settled): an at-most-once message is sent through one account only.
  return receiptsExpected && deliveryGuarantee === 'at_least_once' && ambiguous === 0;
}

function firstLookMs({ lookup }: AttemptedMessage): number {
  return lookup === undefined ? RECEIPT_TIMEOUT_MS : FIRST_LOOKUP_MS;
}

/** Returns the settlement of a refusal that another account of the route changes; undefined where no other account matters. */
function elsewhere(
  outcome: Extract<AttemptOutcome, { kind: 'rejected_permanent' | 'rejected_transient' }>,
  message: AttemptedMessage,
  now: number,
  random: number,
): SettlementPart | undefined {
  const { failover } = message;
  const { failure } = outcome;
  // A message of which a copy may have been sent is never sent through another account too.
  if (failover === undefined || message.ambiguous > 0) return undefined;
  const isPermanent = outcome.kind === 'rejected_permanent';
  const decision = failOver({ isPermanent, class: failure.class }, failover);
  if (decision === undefined) return undefined;
  const retryAfterMs = outcome.kind === 'rejected_transient' ? outcome.retryAfterMs : undefined;
  const asking = retryAfterMs === undefined ? {} : { retryAfterMs };
  /** The wait that the refusing account requested is stored with the move to another account. */
  const moved = (to: Failover): ReturnType<typeof moveOf> => {
    const { rerouted, stayed } = moveOf(to, failover);
    return { rerouted: rerouted && { ...rerouted, ...asking }, stayed };
  };
  const onwards = (to: Failover, at: number): SettlementPart => ({
    status: 'deferred',
    reason: 'failed_over',
    failure: stored(failure, { retryable: true }),
    nextAttemptAt: at,
    ...moved(to),
  });
  if (decision.kind === 'none') return { ...failed(failure), ...moved(decision) };
  if (decision.kind === 'next') return onwards(decision, now);
  const isOther = decision.accountId !== failover.accountId;
  const asked = [retryAfterMs ?? 0, restMs(decision.accountId, failover)];
  // A message that cannot wait so long goes to another account before, rather than nowhere.
  const askedMs = isOther ? Math.max(0, ...asked.filter((ms) => now + ms < message.expiresAt)) : retryAfterMs;
  const wait = deferral({ ...failure, class: decision.waitsFor }, askedMs, message, now, random);
  const shown = { ...wait, failure: stored(failure, { retryable: true }) };
  if ((wait.nextAttemptAt ?? Infinity) >= message.expiresAt) {
    // No time is left for another round, but maybe for an account that was passed over in this one because it asked to wait.
    const tried = failover.tried.filter((one) => one.isEarlier !== true);
    const last = failOver({ isPermanent, class: failure.class }, { ...failover, tried });
    if (last?.kind === 'next') {
      const readyAt = now + restMs(last.accountId, failover);
      return onwards(last, readyAt < message.expiresAt ? readyAt : now);
    }
  }
  // A message that ends because no time is left gets no next account.
  return wait.status === 'deferred' ? { ...shown, ...moved(decision) } : shown;
}

/** Returns for how much longer an account that refused the message before asked not to be called. */
function restMs(accountId: string, { tried }: FailoverFacts): number {
  return tried.findLast((one) => one.accountId === accountId)?.waitMs ?? 0;
}
