import { callEndOf } from '#core/domain/call-end.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
import { causeOfRefusal } from '#core/domain/suppression-cause.ts';
import type { Settlement, StoredFailure } from '#core/domain/settlement.ts';
import type { Json } from '#core/platform/postgres/postgres.ts';
import type { ClaimedMessage, Completion } from '#core/store/deliveries.ts';
import { namesItsOwnIdAlone } from '#providers/registry.ts';
import type { Delivered } from './deliver.ts';

/**
 * The row that records how an attempt ended and what follows. Times are given as delays from `now`: only the
 * database's clock decides when something is due.
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
    provider_message_id: outcome.kind === 'accepted' ? storable(outcome.providerMessageId) : undefined,
    found_by_id: outcome.kind === 'accepted' && namesItsOwnIdAlone(provider) ? true : undefined,
    sent_from: outcome.kind === 'accepted' && message.sender === null ? storable(outcome.sender) : undefined,
    // It waits on, and is then sent as it was (`returnSent`), in the same transaction.
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
    // Recipients of simulators are chosen to be refused, again and again.
    ...(callMs === undefined || outcome.kind === 'not_started'
      ? {}
      : { call_end: callEndOf(outcome), call_ms: Math.round(callMs) }),
    suppress: message.provider.startsWith(SIMULATOR) ? undefined : (causeOfRefusal(outcome) ?? undefined),
  };
}

/** Ids of these providers begin so. */
const SIMULATOR = 'simulator-';

/** Longest id or sender of a provider that is stored, in characters. */
const VENDOR_NAME_MAX = 512;

/** A longer one names nothing that anybody could find again, and hundreds of them are recorded in one batch. */
function storable(name: string | null | undefined): string | undefined {
  return name == null || name.length > VENDOR_NAME_MAX ? undefined : name;
}

/**
 * The same row without any text that a provider chose, for a row that the database refuses: the outcome counts more than
 * its description.
 */
export function withoutVendorWords(row: Completion): Completion {
  return {
    ...row,
    provider_message_id: undefined,
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
