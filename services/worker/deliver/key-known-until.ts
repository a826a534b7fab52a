import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { AnyProvider } from '#providers/provider.ts';

/** For clocks that differ, and for a call that reaches the provider only at the end of its deadline. */
const MARGIN_MS = 60_000;

/**
 * Returns until when a call may begin because the provider remembers the idempotency key of the message's first ambiguous call,
 * in milliseconds since the epoch; undefined if the provider does not forget it. A server that the account has moved to does not
 * know of that call.
 * @param startedAt start of this attempt's call, which is the first one if no earlier call was ambiguous.
 */
export function keyKnownUntil(
  message: Pick<ClaimedMessage, 'ambiguous' | 'ambiguousSince' | 'isAccountMoved'>,
  provider: Pick<AnyProvider, 'keyLifetimeMs'> | undefined,
  startedAt: number,
): number | undefined {
  const { ambiguousSince } = message;
  if (isElsewhere(message)) return ambiguousSince?.getTime() ?? startedAt;
  const lifetimeMs = provider?.keyLifetimeMs;
  return lifetimeMs === undefined
    ? undefined
    : (ambiguousSince?.getTime() ?? startedAt) + lifetimeMs - MARGIN_MS;
}

/**
 * Returns the outcome of an attempt that must not begin, because the provider may take a repeated call for a new message: the
 * message waited too long, held or behind a breaker, or its account has moved to a server that does not know of the first call.
 * Undefined if the attempt may begin. Where a provider does not prevent duplicates, the message's guarantee has decided already.
 */
export function outcomeIfUnrepeatable(
  message: Pick<ClaimedMessage, 'ambiguous' | 'ambiguousSince' | 'isAccountMoved'>,
  provider: Pick<AnyProvider, 'dedupe' | 'keyLifetimeMs'>,
): AttemptOutcome | undefined {
  if (message.ambiguous === 0 || provider.dedupe === 'none') return undefined;
  if (isElsewhere(message)) return ACCOUNT_MOVED;
  const now = Date.now();
  const until = keyKnownUntil(message, provider, now);
  return until !== undefined && now >= until ? KEY_EXPIRED : undefined;
}

function isElsewhere({
  ambiguous,
  isAccountMoved,
}: Pick<ClaimedMessage, 'ambiguous' | 'isAccountMoved'>): boolean {
  return isAccountMoved && ambiguous > 0;
}

/** No call was made, and an earlier one may have sent the message. */
const KEY_EXPIRED: AttemptOutcome = {
  kind: 'ambiguous',
  failure: { class: 'unknown', code: 'idempotency_key_expired' },
};
const ACCOUNT_MOVED: AttemptOutcome = {
  kind: 'ambiguous',
  failure: { class: 'unknown', code: 'account_moved' },
};
