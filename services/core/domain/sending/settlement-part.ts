import type { Failure } from './failure.ts';
import { providerWaitMs, retryDelayMs, throttleWaitMs } from './retry.ts';
import type { AttemptedMessage, Settlement, StoredFailure } from './settlement.ts';
import type { StatusReason } from '../message/status-reason.ts';

/** The part of a settlement that an outcome determines. */
export type SettlementPart = Pick<Settlement, 'status' | 'reason' | 'failure' | 'nextAttemptAt'> &
  Partial<Settlement>;

/** More do not fit into their column. Only the first few decide how long the next wait is. */
const PROVIDER_WAITS_MAX = 32_000;

/**
 * Returns the wait or the end after a temporary refusal. A refused credential and throttling say nothing about the message, so
 * they use up no retry.
 */
export function deferral(
  failure: Failure,
  retryAfterMs: number | undefined,
  message: AttemptedMessage,
  now: number,
  random: number,
): SettlementPart {
  const waits = { providerWaits: Math.min(message.providerWaits + 1, PROVIDER_WAITS_MAX) };
  if (failure.class === 'auth_or_config') {
    return waiting('provider_not_ready', providerWaitMs(message.providerWaits, random, retryAfterMs), waits);
  }
  if (failure.class === 'provider_throttled') {
    return waiting('provider_throttled', throttleWaitMs(message.providerWaits, random, retryAfterMs), waits);
  }
  const nextAttemptAt = now + retryDelayMs(message.retries, random, retryAfterMs);
  if (nextAttemptAt >= message.expiresAt) {
    return {
      status: 'failed',
      reason: 'no_retry_left',
      failure: stored(failure, { retryable: true }),
      nextAttemptAt: null,
      final: true,
    };
  }
  return {
    status: 'deferred',
    reason: 'retry',
    failure: stored(failure, { retryable: true }),
    nextAttemptAt,
    retries: message.retries + 1,
  };

  function waiting(
    reason: StatusReason,
    delayMs: number,
    counted: { providerWaits: number },
  ): SettlementPart {
    // At the expiry at the latest, so that a waiting message expires on time.
    const at = Math.min(now + delayMs, message.expiresAt);
    return {
      status: 'deferred',
      reason,
      failure: stored(failure, { retryable: true }),
      nextAttemptAt: at,
      ...counted,
    };
  }
}

/** Returns the failure as the message's record shows it. */
export function stored(failure: Failure, { retryable }: Pick<StoredFailure, 'retryable'>): StoredFailure {
  const { httpStatus: _shownOnTheAttempt, ...shown } = failure;
  return { ...shown, retryable };
}

export function failed(failure: Failure): SettlementPart {
  return {
    status: 'failed',
    failure: stored(failure, { retryable: false }),
    nextAttemptAt: null,
    reason: null,
    final: true,
  };
}
