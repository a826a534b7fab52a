import type { AttemptOutcome } from '#core/domain/outcome.ts';
import { receiptsOf } from '#providers/registry.ts';
import type { Account } from '../accounts/accounts.ts';

/**
 * Where the vendor is told with each message where to report, it does. Where a person has to tell it, that has been done
 * if it has ever reported; until then its silence says nothing about a message. A simulator says with its answer what it will
 * report, and without one reports nothing.
 */
export function expectsReceipts(
  { provider, row }: Account,
  receiptUrl: string | undefined,
  outcome: Pick<AttemptOutcome, 'kind'>,
): boolean {
  if (provider.receipts === 'simulated') return outcome.kind === 'accepted';
  if (receiptUrl === undefined) return false;
  return receiptsOf(provider)?.setup.mode === 'automatic' || row?.hasReported === true;
}
