import type { Engagement } from '#core/domain/engagement.ts';
import type { Failure } from '#core/domain/failure.ts';
import type { ReceiptKind } from '#core/domain/outcome.ts';

/** A vendor's call to a receipt URL, as the api has stored it. */
export type StoredReceiptCall = {
  readonly id: number;
  readonly tenantId: string;
  readonly accountId: string;
  /** Of the account as it is now; null where it is deleted. */
  readonly accountVersion: number | null;
  readonly method: 'GET' | 'POST';
  readonly receiptVersion: number;
  /** With its question mark; empty where there was none. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly receivedMs: number;
  readonly tries: number;
  /** Of the span in which the api took it; null where nothing was traced. */
  readonly traceparent: string | null;
};

/** What a vendor says, in the names that `settle_receipt_calls` and `settle_lookups` read. What is undefined does not travel. */
export type ReportRow = {
  readonly message_seq: number | undefined;
  readonly purge_on: string | undefined;
  readonly message_id: string | undefined;
  readonly provider_message_id: string | undefined;
  readonly receipt: ReceiptKind | undefined;
  readonly temporary: boolean | undefined;
  readonly failure: Failure | undefined;
  readonly segment: string | undefined;
  readonly engagement: Engagement | undefined;
  readonly provider_status: string;
  /** Whether a signature of the vendor holds; else the receipt URL alone vouches for the report. */
  readonly verified: boolean;
  readonly happened_ms: number;
  readonly report_key: string;
};

/** One report of a call, which has the rest: whose it is, and when it came. */
export type CallReportRow = ReportRow & { readonly call_id: number };

/** What became of calls that were looked into. */
export type SettledReceiptCalls = {
  readonly reports: readonly CallReportRow[];
  /** Ids of calls that stay, as more of their reports are to come. */
  readonly begun: readonly number[];
  /** Ids of calls that are settled. */
  readonly done: readonly number[];
  /** Calls to look into again. */
  readonly again: readonly { readonly id: number; readonly ms: number }[];
  /** Accounts of which a genuine call has come. */
  readonly genuine: readonly string[];
  readonly refused: readonly { readonly account_id: string; readonly reason: string }[];
};
