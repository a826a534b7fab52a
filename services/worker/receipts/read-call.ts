import { createHash } from 'node:crypto';
import { isUuid } from '#core/domain/ids.ts';
import type { Failure } from '#core/domain/failure.ts';
import type { MessageIds } from '#core/domain/message-id.ts';
import { receiptToken, receiptUrl } from '#core/domain/receipt-token.ts';
import type { ReportRow, StoredReceiptCall } from '#core/store/receipt-reports.ts';
import type { ProviderContext } from '#providers/provider.ts';
import type {
  ForgeryReason,
  ParsedReceipt,
  ReceiptCall,
  ReceiptDefinition,
  ReceiptVerdict,
} from '#providers/receipt.ts';
import { redact, secretStrings } from '#providers/redact.ts';
import { receiptsOf } from '#providers/registry.ts';
import { UNSIGNED } from '#providers/signature.ts';
import type { Account } from '../accounts/accounts.ts';

/** What a vendor's call came to. */
export type CallReading =
  | { readonly kind: 'read'; readonly reports: readonly ReportRow[] }
  | { readonly kind: 'confirm'; readonly url: string }
  | { readonly kind: 'forged'; readonly reason: ForgeryReason }
  /** Not in the vendor's format, or for an account that takes no receipts. */
  | { readonly kind: 'unreadable' }
  /** Looked at again later. */
  | { readonly kind: 'undecided' };

export type ReadCallDeps = {
  readonly publicBaseUrl: string;
  readonly receiptKey: Buffer;
  readonly ids: MessageIds;
};

/**
 * Judges a call by each of the account's secrets that are in force, and reads it where one of them holds.
 * @param accounts the account with its present secret, then with the one before where that still holds.
 */
export async function readCall(
  stored: StoredReceiptCall,
  accounts: readonly Account[],
  context: ProviderContext,
  deps: ReadCallDeps,
): Promise<CallReading> {
  const [account] = accounts;
  const definition = receiptsOf(account?.provider);
  if (definition === undefined) return { kind: 'unreadable' };
  const token = receiptToken(deps.receiptKey, stored.accountId, stored.receiptVersion);
  const call: ReceiptCall = {
    method: stored.method,
    url: receiptUrl(deps.publicBaseUrl, stored.accountId, token) + stored.query,
    headers: stored.headers,
    body: stored.body,
    receivedAt: stored.receivedMs,
  };
  const verdict = await judge(call, definition, accounts, context);
  if (verdict.kind !== 'genuine') return verdict;
  const parsed = definition.parse(call);
  if (parsed.kind !== 'receipts') return parsed;
  if (parsed.receipts.length > REPORTS_MAX) return { kind: 'unreadable' };
  const hidden = accounts.flatMap(({ secrets }) => secretStrings(secrets));
  const verified = verdict.isUnsigned !== true;
  const reports = parsed.receipts.map((one) => ({ ...toReport(one, stored, hidden, deps.ids), verified }));
  return { kind: 'read', reports };
}

/** Genuine by any of the secrets; else what the present one says. */
async function judge(
  call: ReceiptCall,
  definition: ReceiptDefinition<never, never>,
  accounts: readonly Account[],
  context: ProviderContext,
): Promise<ReceiptVerdict> {
  if (definition.verify === undefined) return UNSIGNED;
  const verdicts: ReceiptVerdict[] = [];
  for (const { config, secrets } of accounts) {
    const verdict = await definition.verify(call, { config, secrets } as never, context);
    if (verdict.kind === 'genuine') return verdict;
    verdicts.push(verdict);
  }
  return verdicts.find(({ kind }) => kind === 'undecided') ?? verdicts[0] ?? { kind: 'undecided' };
}

const VENDOR_ID_MAX = 512;
/** Of one call. The largest batches that vendors describe, SendGrid's of 4 MiB, have less than half of it. */
const REPORTS_MAX = 20_000;

function toReport(
  one: ParsedReceipt,
  call: StoredReceiptCall,
  hidden: readonly string[],
  ids: MessageIds,
): Omit<ReportRow, 'verified'> {
  const id = one.reference?.toLowerCase();
  const place = id === undefined || !isUuid(id) ? undefined : ids.decode(id);
  return {
    call_id: call.id,
    tenant_id: call.tenantId,
    account_id: call.accountId,
    message_seq: place?.seq,
    purge_on: place?.purgeOn,
    message_id: place === undefined ? undefined : id,
    provider_message_id: storable(one.providerMessageId),
    receipt: one.state,
    temporary: one.isTemporary,
    failure: one.failure && storableFailure(one.failure, hidden),
    segment: storable(one.segment),
    engagement: one.engagement,
    provider_status: redact(one.providerStatus, hidden),
    happened_ms: plausible(one.at, call.receivedMs),
    report_key: keyOf(one, call.accountId),
    received_ms: call.receivedMs,
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
