import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { AnyProvider } from '#providers/provider.ts';

/** For clocks that differ, and for a call that reaches the provider only at the end of its deadline. */
const MARGIN_MS = 60_000;

/**
 * Returns until when a call may begin because the provider remembers the idempotency key of the message's first ambiguous call,
 * in milliseconds since the epoch; undefined if the provider does not forget it.
 * @param startedAt start of this attempt's call, which is the first one if no earlier call was ambiguous.
 */
export function keyKnownUntil(
  { ambiguousSince }: Pick<ClaimedMessage, 'ambiguousSince'>,
  provider: Pick<AnyProvider, 'keyLifetimeMs'> | undefined,
  startedAt: number,
): number | undefined {
  const lifetimeMs = provider?.keyLifetimeMs;
  return lifetimeMs === undefined
    ? undefined
    : (ambiguousSince?.getTime() ?? startedAt) + lifetimeMs - MARGIN_MS;
}

/** Whether the provider may take a repeated call for a new message, because the message waited too long: held, or behind a breaker. */
export function isKeyForgotten(
  message: Pick<ClaimedMessage, 'ambiguous' | 'ambiguousSince'>,
  provider: Pick<AnyProvider, 'keyLifetimeMs'>,
): boolean {
  if (message.ambiguous === 0) return false;
  const now = Date.now();
  const until = keyKnownUntil(message, provider, now);
  return until !== undefined && now >= until;
}

/** No call was made, and an earlier one may have sent the message. */
export const KEY_EXPIRED: AttemptOutcome = {
  kind: 'ambiguous',
  failure: { class: 'unknown', code: 'idempotency_key_expired' },
};
