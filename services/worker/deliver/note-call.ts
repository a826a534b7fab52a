import { ADAPTER_FAULT, isProviderFault } from '#core/domain/sending/failure.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { Breakers } from '../accounts/breakers.ts';

/** Counts a call for the breaker of its account. */
export function noteCall(
  { accountId, isProbe }: { readonly accountId: string; readonly isProbe: boolean },
  provider: string,
  outcome: Outcome,
  breakers: Breakers,
): void {
  const isRefused = outcome.kind === 'rejected_transient' && outcome.failure.class === 'auth_or_config';
  // A probe with a refused credential is no sign of recovery, although the provider answered.
  breakers.note(accountId, provider, { fault: isFault(outcome) || (isProbe && isRefused), isProbe });
}

/** After an ambiguous outcome of another class the provider has answered, but did not say whether it has the message. */
function isFault(outcome: Outcome): boolean {
  return (
    (outcome.kind === 'rejected_transient' && isProviderFault(outcome.failure.class)) ||
    (outcome.kind === 'ambiguous' &&
      (isProviderFault(outcome.failure.class) || outcome.failure.code === ADAPTER_FAULT))
  );
}
