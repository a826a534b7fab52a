import { createHash } from 'node:crypto';
import type { Failure } from '#core/domain/failure.ts';
import { isUuid } from '#core/domain/ids.ts';
import type { MessageIds } from '#core/domain/message-id.ts';
import type { ReportRow } from '#core/store/receipt-reports.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt } from '#providers/receipt.ts';
import { redact } from '#providers/redact.ts';

export type ReportedPlace = { readonly id: string; readonly seq: number; readonly purgeOn: string };

/** Whose report it is, and when it came. */
export type ReportOrigin = {
  readonly tenantId: string;
  readonly accountId: string;
  readonly receivedMs: number;
  /** Secrets, which no text of the vendor may repeat. */
  readonly hidden: readonly string[];
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
  { tenantId, accountId, receivedMs, hidden, verified }: ReportOrigin,
): Omit<ReportRow, 'call_id'> {
  return {
    tenant_id: tenantId,
    account_id: accountId,
    message_seq: place?.seq,
    purge_on: place?.purgeOn,
    message_id: place?.id,
    provider_message_id: storable(one.providerMessageId),
    receipt: one.state,
    temporary: one.isTemporary,
    failure: one.failure && storableFailure(one.failure, hidden),
    segment: storable(one.segment),
    engagement: one.engagement,
    // What stands in a secret's place may be longer than the secret.
    provider_status: storable(redact(one.providerStatus, hidden).slice(0, PROVIDER_STATUS_MAX)),
    verified,
    happened_ms: plausible(one.at, receivedMs),
    report_key: keyOf(one, accountId),
    received_ms: receivedMs,
  };
}

/** Without what the database takes in no text: NUL, and halves of characters. */
function storable(text: string): string;
function storable(text: string | undefined): string | undefined;
function storable(text: string | undefined): string | undefined {
  return text?.slice(0, VENDOR_ID_MAX).replaceAll('\0', '').toWellFormed();
}

function storableFailure(failure: Failure, hidden: readonly string[]): Failure {
  const { code, providerCode, providerMessage } = failure;
  return {
    ...failure,
    code: storable(code),
    ...(providerCode === undefined ? {} : { providerCode: storable(providerCode) }),
    ...(providerMessage === undefined ? {} : { providerMessage: redact(providerMessage, hidden) }),
  };
}

/** What a vendor's clock says of the future, or of a time before there were messages, is not believed. */
function plausible(at: number | undefined, receivedMs: number): number {
  const isPlausible = at !== undefined && Number.isFinite(at) && at > 0 && at <= receivedMs + DAY_MS;
  return isPlausible ? Math.round(at) : receivedMs;
}

const DAY_MS = 86_400_000;

/** The same for repetitions of a report to one account. */
function keyOf(one: ParsedReceipt, accountId: string): string {
  const name = one.eventId ?? JSON.stringify(one);
  return createHash('sha256').update(`${accountId}\n${name}`).digest('base64url').slice(0, 22);
}
