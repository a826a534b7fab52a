import { settle } from '#core/domain/settle.ts';
import type { AttemptedMessage } from '#core/domain/settlement.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
import type { ClaimedMessage, Completion } from '#core/store/deliveries.ts';
import { toCompletion } from '../../services/worker/deliver/completion.ts';

/**
 * How a claimed attempt is recorded that ended so now.
 * @param call how long it took; absent: none was made, as far as an account's counts are concerned.
 * @param terms of its provider, which guards against no second copy and reports nothing unless they say so; and which other accounts may send it.
 */
export function completionOf(
  message: ClaimedMessage,
  outcome: AttemptOutcome,
  terms: Partial<Pick<AttemptedMessage, 'dedupe' | 'receiptsExpected' | 'failover'>> = {},
  call: { readonly callMs?: number } = {},
): Completion {
  const now = Date.now();
  const expiresAt = message.expiresAt.getTime();
  const attempted = { ...message, expiresAt, dedupe: 'none', receiptsExpected: false, ...terms } as const;
  return toCompletion(
    message,
    { outcome, provider: undefined, ...call },
    settle(outcome, attempted, now, 0),
    now,
  );
}
