import {
  REFUSALS,
  type Acknowledgement,
  type Cancellation,
  type ProviderCall,
  type Suppression,
  type TakenReceipt,
} from './ledger.ts';
import type { MessageRecord } from './records.ts';

/** A message as the public api shows it. */
export type ShownMessage = {
  readonly status: string;
  readonly attemptCount: number;
  readonly duplicateRisk: boolean;
  /** Every account that was considered, by its id, and what came of it. */
  readonly route: readonly { readonly providerId: string; readonly reason: string }[];
};

/** One message in all accounts. */
export type Case = {
  readonly record: MessageRecord;
  readonly promises: readonly Acknowledgement[];
  /** Wishes to cancel it that were heard, or may have been. */
  readonly cancels: readonly Cancellation[];
  /** Wishes to suppress its recipient that were heard, or may have been. */
  readonly suppressions: readonly Suppression[];
  readonly calls: readonly ProviderCall[];
  /** Reports of the provider that were taken. */
  readonly receipts: readonly TakenReceipt[];
  /** How its route has it wait for receipts; null where it goes to no other account for want of one. */
  readonly wait: ReceiptWait | null;
  /** Of some messages only. */
  readonly shown: ShownMessage | undefined;
};

export type ReceiptWait = {
  readonly timeoutMs: number;
  /** What was due then was waited for, and later the routes ceased to have a time. */
  readonly decidedBy: number;
};

/** Calls after which the message may be on its way. */
export function takenOf(calls: readonly ProviderCall[]): ProviderCall[] {
  return calls.filter(({ answer }) => !REFUSALS.has(answer));
}
