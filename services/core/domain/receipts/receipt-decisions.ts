import type { ReportedMessage } from './apply-report.ts';
import type { ReceiptEventType } from './receipt-events.ts';
import type { SuppressionNeed } from './suppression-for.ts';
import type { DueReceipt } from './due-receipt.ts';

export type ReceiptEvent = {
  readonly seq: number;
  readonly purgeOn: string;
  readonly tenantId: string;
  readonly type: ReceiptEventType;
  readonly applied: boolean;
  readonly details: Readonly<Record<string, unknown>>;
  readonly reportKey: string | null;
};

/** The result of deciding about a receipt once. */
export type ReceiptDecision = 'applied' | 'unapplied' | 'repeated' | 'waiting' | 'orphan' | 'full';

export type ReceiptResult = Pick<DueReceipt, 'tenantId' | 'provider' | 'asked' | 'calledIn' | 'sentIn'> & {
  readonly result: ReceiptDecision;
  /** Whether the provider reported the end of the message with this receipt. */
  readonly isEnd: boolean;
};

/** A message that receipts have changed. */
export type ChangedMessage = ReportedMessage & {
  readonly seq: number;
  readonly purgeOn: string;
  /** Whether the message waited for another call, which is then not made. */
  readonly wasWaiting: boolean;
  /** The account that is now known to have sent the message; null if the receipt proves nothing new about that. */
  readonly via: {
    readonly accountId: string;
    readonly provider: string;
    readonly providerMessageId: string | null;
  } | null;
  /** How long the next receipt is awaited, as the message's state is known again; null if the wait does not change. */
  readonly awaitMs: number | null;
};

/** The changes that follow from receipts. */
export type ReceiptDecisions = {
  readonly messages: readonly ChangedMessage[];
  readonly events: readonly ReceiptEvent[];
  readonly waiting: readonly { readonly id: string; readonly ms: number }[];
  /** Ids of the receipts that are settled. */
  readonly done: readonly string[];
  /** Accounts whose tenants are told that receipts were given up early. */
  readonly refused: readonly { readonly accountId: string; readonly reason: 'too_many_waiting' }[];
  /** Recipients to suppress, each with the message that causes it. */
  readonly suppress: readonly (SuppressionNeed & { readonly seq: number; readonly purgeOn: string })[];
  readonly results: readonly ReceiptResult[];
  /** The longest wait of the receipts that were never postponed. */
  readonly waitedMs: number;
};
