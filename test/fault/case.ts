import {
  REFUSALS,
  type Acknowledgement,
  type Cancellation,
  type ProviderCall,
  type Suppression,
  type TakenReceipt,
} from './ledger.ts';
import type { MessageRecord } from './records.ts';

/** A message as the public API shows it. */
export type ShownMessage = {
  readonly status: string;
  readonly attemptCount: number;
  readonly duplicateRisk: boolean;
  /** Every account that the route considered, by its id, and why it was chosen, was skipped or failed. */
  readonly route: readonly { readonly providerId: string; readonly reason: string }[];
};

/** Everything that the four ledgers hold about one message. */
export type Case = {
  readonly record: MessageRecord;
  readonly promises: readonly Acknowledgement[];
  /** Cancel requests that were answered with a 200, and those without a known answer. */
  readonly cancels: readonly Cancellation[];
  /** Suppressions of its recipient that were answered with a 201, and those without a known answer. */
  readonly suppressions: readonly Suppression[];
  readonly calls: readonly ProviderCall[];
  /** Receipts that the api answered with a 2xx. */
  readonly receipts: readonly TakenReceipt[];
  /** The receipt timeout of its route; null where the route has none. */
  readonly wait: ReceiptWait | null;
  /** Read for a sample of the messages only. */
  readonly shown: ShownMessage | undefined;
};

export type ReceiptWait = {
  readonly timeoutMs: number;
  /**
   * Every receipt timeout that had passed by this time (milliseconds since the epoch) was decided before the routes lost theirs.
   */
  readonly decidedBy: number;
};

/** Returns the calls that the provider accepted or may have accepted. */
export function takenOf(calls: readonly ProviderCall[]): ProviderCall[] {
  return calls.filter(({ answer }) => !REFUSALS.has(answer));
}
