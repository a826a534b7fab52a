import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { receiptsOf } from '#providers/registry.ts';
import type { Account } from '../accounts/accounts.ts';

/**
 * Returns whether the provider will report on the message. A vendor that gets the receipt URL with each message will, for the accounts
 * that it does so for. Where a person must configure the URL at the vendor, this is known only after the vendor's first report; before
 * that, silence says nothing about a message. A simulator's receipts come with its acceptance, and without an acceptance there are
 * none.
 */
export function expectsReceipts(
  { provider, row, config }: Account,
  receiptUrl: string | undefined,
  outcome: Pick<AttemptOutcome, 'kind'>,
): boolean {
  if (provider.receipts === 'simulated') return outcome.kind === 'accepted';
  if (receiptUrl === undefined) return false;
  const receipts = receiptsOf(provider);
  const isAutomatic =
    receipts?.setup.mode === 'automatic' && receipts.isAutomaticFor?.(config as never) !== false;
  return isAutomatic || row?.hasReported === true;
}
