import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { ExpectedWork } from '#core/domain/queue/expected-work.ts';
import type { createAccountStatus } from './accounts/account-status.ts';
import type { Breakers } from './accounts/breakers.ts';
import type { AttemptsDeps } from './deliver/attempts.ts';
import type { WorkerEvents } from './events.ts';
import type { Lookups } from './lookups/lookups.ts';
import { NUMBERING_GAP_MS } from './upkeep/number-events.ts';

export type AfterAttemptDeps = {
  readonly events: Pick<WorkerEvents, 'attemptFinished' | 'taskFailed'>;
  readonly breakers: Pick<Breakers, 'closedForMs'>;
  /** Credits that a call earns its tenant. */
  readonly expected: readonly Pick<ExpectedWork, 'called'>[];
  readonly lookups: Pick<Lookups, 'yieldToSends'>;
  readonly noteAccount: ReturnType<typeof createAccountStatus>;
  readonly wake: (task: 'receipts' | 'numbering', delayMs: number) => void;
};

/** Time after which a receipt that a simulator wrote with its attempt is due for certain. */
const RECEIPT_MARGIN_MS = 5;

/** Returns the function that passes the result of an attempt to the parts of the worker that depend on it. */
export function afterAttempt({
  events,
  breakers,
  expected,
  lookups,
  noteAccount,
  wake,
}: AfterAttemptDeps): AttemptsDeps['events']['attemptFinished'] {
  return (message, delivered, settlement) => {
    const { accountId, tenantId } = message;
    const unblockedMs = accountId === null ? undefined : breakers.closedForMs(accountId);
    events.attemptFinished(message, delivered, settlement, unblockedMs);
    for (const one of expected) one.called(tenantId, performance.now());
    if (accountId !== null && isThrottled(delivered.outcome)) lookups.yieldToSends(accountId);
    noteAccount(message, delivered.outcome).catch((error: unknown) =>
      events.taskFailed('account_status', error),
    );
    for (const { afterMs } of settlement?.receipts ?? []) wake('receipts', afterMs + RECEIPT_MARGIN_MS);
    wake('numbering', NUMBERING_GAP_MS);
  };
}

function isThrottled(outcome: AttemptOutcome): boolean {
  return 'failure' in outcome && outcome.failure.class === 'provider_throttled';
}
