import { settle } from '#core/domain/sending/settle.ts';
import type { AttemptedMessage } from '#core/domain/sending/settlement.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Completion } from '#core/store/sending/completion.ts';
import { toCompletion } from '../../services/worker/deliver/completion.ts';

/**
 * Returns the completion of a claimed attempt that has just ended with this outcome.
 * @param call duration of the provider call; absent: no call was made, as far as the account's call statistics are concerned.
 * @param terms of the provider: by default it has no idempotency keys and sends no receipts; and the accounts for failover.
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
