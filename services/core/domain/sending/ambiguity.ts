import { AMBIGUOUS_LOOKUP_MS } from '../receipts/decide-lookup.ts';
import type { Failure } from './failure.ts';
import { AMBIGUOUS_RETRY_MS, retryDelayMs } from './retry.ts';
import { stored, type SettlementPart } from './settlement-part.ts';
import type { AttemptOutcome } from './outcome.ts';
import type { AttemptedMessage, Settlement } from './settlement.ts';

/** Decides about a call that ended without an answer: the same account is called once more, or the message ends as `unknown`. */
export function ambiguity(
  failure: Failure,
  message: AttemptedMessage,
  now: number,
  random: number,
): SettlementPart {
  const { dedupe, keyKnownUntil = Number.POSITIVE_INFINITY } = message;
  const delayMs = Math.max(
    dedupe === 'lookup' ? AMBIGUOUS_LOOKUP_MS : AMBIGUOUS_RETRY_MS,
    dedupe === 'none' ? 0 : retryDelayMs(message.retries, random),
  );
  const nextAttemptAt = now + delayMs;
  const guarded = dedupe !== 'none' && nextAttemptAt < keyKnownUntil;
  const mayRepeat =
    dedupe === 'none' ? message.deliveryGuarantee === 'at_least_once' && message.ambiguous === 0 : guarded;
  const counted = { ambiguous: message.ambiguous + 1, failure: stored(failure, { retryable: true }) };
  if (!mayRepeat || nextAttemptAt >= message.expiresAt) {
    return { ...counted, ...unknown(message, now) };
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

/**
 * Ends a message as `unknown` instead of `failed` or `expired` if an earlier call may have sent it: receipts of that copy still
 * count then.
 */
export function unknownIfMaybeSent(
  settlement: Settlement,
  outcome: AttemptOutcome,
  message: AttemptedMessage,
  now: number,
): Settlement {
  const { status, nextAttemptAt } = settlement;
  const isLast = status === 'failed' || (status === 'deferred' && (nextAttemptAt ?? 0) >= message.expiresAt);
  if (!isLast || message.ambiguous === 0 || showsNoCopy(outcome, message)) return settlement;
  return { ...settlement, ...unknown(message, now) };
}

/** The end of a message that an unanswered call may have sent. A vendor that can be asked by our reference is asked. */
function unknown(
  message: AttemptedMessage,
  now: number,
): Pick<Settlement, 'status' | 'reason' | 'nextAttemptAt' | 'awaitUntil' | 'final'> {
  const awaitUntil = message.lookup === 'reference' ? now + AMBIGUOUS_LOOKUP_MS : null;
  return {
    status: 'unknown',
    reason: 'ambiguous_attempt',
    nextAttemptAt: null,
    awaitUntil,
    // Otherwise no receipt or lookup can report any more.
    final: !isAwaited(message) && awaitUntil === null,
  };
}

/**
 * Whether the outcome shows that no earlier call has sent the message. Before a repeated call by look-up the provider has said
 * that it has no copy. One that knows idempotency keys refuses a message for good only if it has accepted none under the key;
 * an answer such as 429 may come before it compares keys.
 */
function showsNoCopy({ kind }: AttemptOutcome, { dedupe }: AttemptedMessage): boolean {
  return dedupe === 'lookup' || (dedupe === 'key' && kind === 'rejected_permanent');
}

/** Whether a receipt is awaited: this account reports, or an account that accepted the message before does. */
export function isAwaited({ receiptsExpected, sentBy }: AttemptedMessage): boolean {
  return receiptsExpected || sentBy !== undefined;
}
