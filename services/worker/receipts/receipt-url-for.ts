import { receiptToken, receiptUrl, type ReceiptKey } from '#core/domain/receipts/receipt-token.ts';
import { receiptsOf } from '#providers/registry.ts';
import type { Account } from '../accounts/accounts.ts';

/** Settings of receipt URLs. */
export type ReceiptSettings = {
  readonly publicBaseUrl: string;
  /** Key of the tokens in receipt URLs. */
  readonly receiptKey: ReceiptKey;
};

/**
 * Returns where the vendor can report on messages of the account; undefined if the vendor sends no reports or the service has no
 * public URL to receive them.
 */
export function receiptUrlFor(
  { provider, row }: Account,
  settings: ReceiptSettings | undefined,
): string | undefined {
  if (settings === undefined || row === null || receiptsOf(provider) === undefined) return undefined;
  const token = receiptToken(settings.receiptKey, row.id, row.receiptVersion);
  return receiptUrl(settings.publicBaseUrl, row.id, token);
}
