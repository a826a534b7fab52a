import { callEndOf } from '#core/domain/sending/call-end.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { causeOfRefusal } from '#core/domain/recipient/suppression-cause.ts';
import type { Settlement, StoredFailure } from '#core/domain/sending/settlement.ts';
import type { Json } from '#core/platform/postgres/postgres.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Completion } from '#core/store/sending/completion.ts';
import { namesItsOwnIdAlone } from '#providers/registry.ts';
import { vendorName } from '#providers/vendor-text.ts';
import type { Delivered } from './deliver.ts';

/**
 * Returns the row that records how an attempt ended and what follows. Times are delays from `now`, because only the database's
 * clock decides when something is due.
 */
export function toCompletion(
  message: ClaimedMessage,
  { outcome, provider, callMs }: Delivered,
  next: Settlement,
  now: number,
): Completion {
  const failure = 'failure' in outcome ? outcome.failure : undefined;
  return {
    seq: message.seq,
    purge_on: message.purgeOn,
    attempt: message.attempt,
    outcome: outcome.kind,
    outcome_reason: outcome.kind === 'not_started' ? outcome.reason : failure?.code,
    failure,
    http_status: httpStatusOf(outcome),
    provider_message_id: outcome.kind === 'accepted' ? vendorName(outcome.providerMessageId) : undefined,
    found_by_id: outcome.kind === 'accepted' && namesItsOwnIdAlone(provider) ? true : undefined,
    sent_from:
      outcome.kind === 'accepted' && message.sender === null ? vendorName(outcome.sender) : undefined,
    // The row is stored as waiting; `returnSent` then sets it back to sent in the same transaction.
    status: next.returned ? 'deferred' : next.status,
    reason: next.returned ? 'failed_over' : (next.reason ?? undefined),
    failure_shown: next.failure ?? undefined,
    rerouted: next.rerouted ?? next.stayed ?? undefined,
    called_account: next.rerouted === null ? undefined : (message.accountId ?? undefined),
    next_attempt_ms: next.nextAttemptAt === null ? undefined : Math.max(0, next.nextAttemptAt - now),
    retries: next.retries,
    ambiguous: next.ambiguous,
    provider_waits: next.providerWaits,
    duplicate_risk: next.duplicateRisk,
    final: next.final,
    await_ms: next.awaitUntil === null ? undefined : next.awaitUntil - now,
    failover_ms: next.failoverMs ?? undefined,
    returns: next.returned ? true : undefined,
    receipts: next.receipts.length === 0 ? undefined : next.receipts,
    discard: message.discard,
    ...(callMs === undefined || outcome.kind === 'not_started'
      ? {}
      : { call_end: callEndOf(outcome), call_ms: Math.round(callMs) }),
    // Refusals by simulators suppress nobody: their recipients are chosen in order to be refused repeatedly.
    suppress: message.provider.startsWith(SIMULATOR) ? undefined : (causeOfRefusal(outcome) ?? undefined),
  };
}

/** Prefix of the simulators' provider ids. */
const SIMULATOR = 'simulator-';

/**
 * Returns the same row without text chosen by the provider, for a row that the database rejects: the outcome matters more than
 * its description.
 */
export function withoutVendorWords(row: Completion): Completion {
  return {
    ...row,
    provider_message_id: undefined,
    sent_from: undefined,
    failure: bare(row.failure),
    failure_shown: bare(row.failure_shown),
  };
}

function bare(failure: Completion['failure']): Completion['failure'] {
  if (failure === undefined) return undefined;
  const { class: group, code, retryable } = failure as StoredFailure & Record<string, Json>;
  return { class: group, code, ...(retryable === undefined ? {} : { retryable }) };
}

function httpStatusOf(outcome: AttemptOutcome): number | undefined {
  if (outcome.kind === 'not_started') return undefined;
  return outcome.kind === 'accepted' ? outcome.httpStatus : outcome.failure.httpStatus;
}
