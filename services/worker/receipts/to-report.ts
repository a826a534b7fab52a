import { createHash } from 'node:crypto';
import type { Failure } from '#core/domain/sending/failure.ts';
import { isUuid } from '#core/domain/storage/ids.ts';
import type { MessageIds } from '#core/domain/storage/message-id.ts';
import type { ReportRow } from '#core/store/receipts/receipt-reports.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt } from '#providers/receipt.ts';
import type { Redactor } from '#providers/redact.ts';
import { vendorName, vendorText } from '#providers/vendor-text.ts';

export type ReportedPlace = { readonly id: string; readonly seq: number; readonly purgeOn: string };

/** The account of a report, and when the report came. */
export type ReportOrigin = {
  readonly accountId: string;
  readonly receivedMs: number;
  /** Redactor of the account's secrets: no stored text of the vendor may repeat a secret. */
  readonly redact: Redactor;
  /** Whether the report is certainly the vendor's. */
  readonly verified: boolean;
};

/** Returns the place of the message whose reference the vendor reports. */
export function placeOf(reference: string | undefined, ids: MessageIds): ReportedPlace | undefined {
  const id = reference?.toLowerCase();
  const place = id === undefined || !isUuid(id) ? undefined : ids.decode(id);
  return place === undefined || id === undefined ? undefined : { ...place, id };
}

/** Returns the row in which a report waits to be applied. */
export function toReport(
  one: ParsedReceipt,
  place: ReportedPlace | undefined,
  { accountId, receivedMs, redact, verified }: ReportOrigin,
): ReportRow {
  return {
    message_seq: place?.seq,
    purge_on: place?.purgeOn,
    message_id: place?.id,
    provider_message_id: vendorName(one.providerMessageId),
    receipt: one.state,
    temporary: one.isTemporary,
    failure: one.failure && storableFailure(one.failure, redact),
    segment: one.segment === undefined ? undefined : vendorText(one.segment),
    engagement: one.engagement,
    // Cut after the redaction, because a placeholder may be longer than the secret that it replaces.
    provider_status: vendorText(redact(one.providerStatus), PROVIDER_STATUS_MAX),
    verified,
    happened_ms: plausible(one.at, receivedMs),
    report_key: keyOf(one, accountId),
  };
}

function storableFailure(failure: Failure, redact: Redactor): Failure {
  const { code, providerCode, providerMessage } = failure;
  return {
    ...failure,
    code: vendorText(code),
    ...(providerCode === undefined ? {} : { providerCode: vendorText(providerCode) }),
    ...(providerMessage === undefined ? {} : { providerMessage: redact(providerMessage) }),
  };
}

/** Ignores a vendor's time that lies in the future; `lock_receipts` ignores one before the message was accepted. */
function plausible(at: number | undefined, receivedMs: number): number {
  const isPlausible = at !== undefined && Number.isFinite(at) && at > 0 && at <= receivedMs;
  return isPlausible ? Math.round(at) : receivedMs;
}

/** Returns the same key for repetitions of a report to one account. */
function keyOf(one: ParsedReceipt, accountId: string): string {
  const name = one.eventId ?? JSON.stringify(one);
  return createHash('sha256').update(`${accountId}\n${name}`).digest('base64url').slice(0, 22);
}
