import type { Engagement } from '#core/domain/receipts/engagement.ts';
import type { Failure } from '#core/domain/sending/failure.ts';
import type { ReceiptKind } from '#core/domain/sending/outcome.ts';

/** A vendor's call to a receipt URL, as the api has stored it. */
export type StoredReceiptCall = {
  readonly id: number;
  readonly tenantId: string;
  readonly accountId: string;
  /** The account's current version; null if it is deleted, or if no worker could parse its calls for a day. */
  readonly accountVersion: number | null;
  readonly method: 'GET' | 'POST';
  readonly receiptVersion: number;
  /** With its question mark; empty if there was none. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly receivedMs: number;
  /** Number of this reading: one more than those after which it stayed. A lease that ended is none. */
  readonly tries: number;
  /** Whether an earlier reading refused its signature. */
  readonly wasRefused: boolean;
  /** Trace context of the span in which the api received it; null if nothing was traced. */
  readonly traceparent: string | null;
};

/** A vendor's report, with the names that `settle_receipt_calls` and `settle_lookups` read. Undefined fields are not sent. */
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
  /** Whether the vendor's signature is valid; otherwise only the receipt URL authenticates the report. */
  readonly verified: boolean;
  readonly happened_ms: number;
  readonly report_key: string;
};

/** One report of a call; the call's row has the tenant, the account and the time of arrival. */
export type CallReportRow = ReportRow & { readonly call_id: number };

/** The results of parsing calls. */
export type SettledReceiptCalls = {
  readonly reports: readonly CallReportRow[];
  /** Ids of calls that stay, because more of their reports follow. */
  readonly begun: readonly number[];
  /** Ids of settled calls. */
  readonly done: readonly number[];
  /**
   * Calls to parse again later. `misconfigured`: for that their account needs other settings. `refused`: their signature was
   * refused; those for which their account has no room are deleted.
   */
  readonly again: readonly {
    readonly id: number;
    readonly ms: number;
    readonly misconfigured: boolean;
    readonly refused?: boolean | undefined;
  }[];
  /** Accounts that received a genuine call. */
  readonly genuine: readonly string[];
  readonly refused: readonly { readonly account_id: string; readonly reason: string }[];
};
