import { createHash } from 'node:crypto';
import type { Failure } from '#core/domain/failure.ts';
import { isUuid } from '#core/domain/ids.ts';
import type { MessageIds } from '#core/domain/message-id.ts';
import type { ReportRow } from '#core/store/receipt-reports.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt } from '#providers/receipt.ts';
import type { Redactor } from '#providers/redact.ts';

export type ReportedPlace = { readonly id: string; readonly seq: number; readonly purgeOn: string };

/** Whose report it is, and when it came. */
export type ReportOrigin = {
  readonly accountId: string;
  readonly receivedMs: number;
  /** Of the account: no text of the vendor may repeat a secret. */
  readonly redact: Redactor;
  /** Whether it is the vendor's for certain. */
  readonly verified: boolean;
};

const VENDOR_ID_MAX = 512;

/** Where the message is that a vendor gives our reference of. */
export function placeOf(reference: string | undefined, ids: MessageIds): ReportedPlace | undefined {
  const id = reference?.toLowerCase();
  const place = id === undefined || !isUuid(id) ? undefined : ids.decode(id);
  return place === undefined || id === undefined ? undefined : { ...place, id };
}

/** The row by which a report waits to be applied. */
export function toReport(
  one: ParsedReceipt,
  place: ReportedPlace | undefined,
  { accountId, receivedMs, redact, verified }: ReportOrigin,
): ReportRow {
  return {
    message_seq: place?.seq,
    purge_on: place?.purgeOn,
    message_id: place?.id,
    provider_message_id: storable(one.providerMessageId),
    receipt: one.state,
    temporary: one.isTemporary,
    failure: one.failure && storableFailure(one.failure, redact),
    segment: storable(one.segment),
    engagement: one.engagement,
    // What stands in a secret's place may be longer than the secret.
    provider_status: storable(redact(one.providerStatus).slice(0, PROVIDER_STATUS_MAX)),
    verified,
    happened_ms: plausible(one.at, receivedMs),
    report_key: keyOf(one, accountId),
  };
}

/** Without what the database takes in no text: NUL, and halves of characters. */
export function storable(text: string): string;
export function storable(text: string | undefined): string | undefined;
export function storable(text: string | undefined): string | undefined {
  return text?.slice(0, VENDOR_ID_MAX).replaceAll('\0', '').toWellFormed();
}

function storableFailure(failure: Failure, redact: Redactor): Failure {
  const { code, providerCode, providerMessage } = failure;
  return {
    ...failure,
    code: storable(code),
    ...(providerCode === undefined ? {} : { providerCode: storable(providerCode) }),
    ...(providerMessage === undefined ? {} : { providerMessage: redact(providerMessage) }),
  };
}

/** What a vendor's clock says of the future is not believed, nor of a time before the message was accepted (`lock_receipts`). */
function plausible(at: number | undefined, receivedMs: number): number {
  const isPlausible = at !== undefined && Number.isFinite(at) && at > 0 && at <= receivedMs;
  return isPlausible ? Math.round(at) : receivedMs;
}

/** The same for repetitions of a report to one account. */
function keyOf(one: ParsedReceipt, accountId: string): string {
  const name = one.eventId ?? JSON.stringify(one);
  return createHash('sha256').update(`${accountId}\n${name}`).digest('base64url').slice(0, 22);
}
