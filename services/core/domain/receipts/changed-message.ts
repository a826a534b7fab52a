import type { ReportedMessage } from './apply-report.ts';
import { isWaiting } from '../message/message-state.ts';
import { RECEIPT_TIMEOUT_MS } from '../sending/settle.ts';
import type { DueReceipt } from './due-receipt.ts';
import type { ChangedMessage } from './receipt-decisions.ts';

type Change = {
  readonly seq: number;
  readonly purgeOn: string;
  readonly before: ReportedMessage;
  readonly after: ReportedMessage;
  /** The changes that earlier receipts of the batch have made to the message. */
  readonly known: ChangedMessage | undefined;
};

/** Returns a message as a receipt has changed it. */
export function changedMessage(
  one: DueReceipt,
  { seq, purgeOn, before, after, known }: Change,
): ChangedMessage {
  const isFound = isWaiting(before.status) || before.status === 'unknown';
  // A late answer states itself whether a receipt follows it.
  const found = one.accountId === null ? one.awaitMs : RECEIPT_TIMEOUT_MS;
  const isSent = after.status === 'sent';
  return {
    ...after,
    final: isSent && isFound ? found === null : after.final,
    seq,
    purgeOn,
    wasWaiting: isWaiting(before.status) || known?.wasWaiting === true,
    via: isFound ? viaOf(one) : (known?.via ?? null),
    awaitMs: isSent ? (isFound ? found : (known?.awaitMs ?? null)) : null,
  };
}

function viaOf({ accountId, provider, providerMessageId }: DueReceipt): ChangedMessage['via'] {
  return accountId === null ? null : { accountId, provider, providerMessageId };
}
