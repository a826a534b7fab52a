import type { ClaimedMessage } from '#core/store/deliveries.ts';
import type { AnyProvider } from '#providers/provider.ts';

/**
 * Returns until when the provider remembers the idempotency key of the message's first ambiguous call, in milliseconds since the
 * epoch; undefined if the provider does not forget it.
 * @param startedAt start of this attempt's call, which is the first one if no earlier call was ambiguous.
 */
export function keyKnownUntil(
  { ambiguousSince }: Pick<ClaimedMessage, 'ambiguousSince'>,
  provider: Pick<AnyProvider, 'keyLifetimeMs'> | undefined,
  startedAt: number,
): number | undefined {
  const lifetimeMs = provider?.keyLifetimeMs;
  return lifetimeMs === undefined ? undefined : (ambiguousSince?.getTime() ?? startedAt) + lifetimeMs;
}
