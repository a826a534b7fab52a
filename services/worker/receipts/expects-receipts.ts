import { receiptsOf } from '#providers/registry.ts';
import type { Account } from '../accounts/accounts.ts';

/**
 * Where the vendor is told with each message where to report, it does. Where a person has to tell it, that has been done
 * if it has ever reported; until then its silence says nothing about a message.
 */
export function expectsReceipts({ provider, row }: Account, receiptUrl: string | undefined): boolean {
  if (provider.receipts === 'simulated') return true;
  if (receiptUrl === undefined) return false;
  return receiptsOf(provider)?.setup.mode === 'automatic' || row?.hasReported === true;
}
