import { chunks } from '#core/domain/chunks.ts';
import type { MessageIds } from '#core/domain/message-id.ts';
import { receiptToken, receiptUrl, type ReceiptKey } from '#core/domain/receipt-token.ts';
import type { LoopTurns } from '#core/platform/process/loop-turns.ts';
import type { CallReportRow, StoredReceiptCall } from '#core/store/receipt-reports.ts';
import type { ProviderContext } from '#providers/provider.ts';
import type { ForgeryReason, ReceiptCall, ReceiptDefinition, ReceiptVerdict } from '#providers/receipt.ts';
import { createRedactor, secretStrings } from '#providers/redact.ts';
import { receiptsOf } from '#providers/registry.ts';
import { UNSIGNED } from '#providers/signature.ts';
import type { Account } from '../accounts/accounts.ts';
import { placeOf, toReport } from './to-report.ts';

/** Of one call. The largest batches that vendors describe, SendGrid's of 4 MiB, have less than half of it. */
const REPORTS_MAX = 20_000;
/** What is done of a report takes as long as what is done of so many bytes, some hundredths of a millisecond. */
const REPORT_WEIGHT = 2_048;
const REPORTS_IN_A_TURN = 64;
/** Signatures and all that is done of a call however small it is. */
const CALL_WEIGHT = 8_192;

/** What a vendor's call came to. */
export type CallReading =
  | { readonly kind: 'read'; readonly reports: readonly CallReportRow[] }
  | { readonly kind: 'confirm'; readonly url: string }
  | { readonly kind: 'forged'; readonly reason: ForgeryReason }
  /** Not in the vendor's format, or for an account that takes no receipts. */
  | { readonly kind: 'unreadable' }
  /** Looked at again later. */
  | { readonly kind: 'undecided' };

export type ReadCallDeps = {
  readonly publicBaseUrl: string;
  readonly receiptKey: ReceiptKey;
  readonly ids: MessageIds;
  /** Of the bytes of calls that are read at the same time: messages on their way to a provider do not wait for all of them. */
  readonly turns: LoopTurns;
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
  await deps.turns(CALL_WEIGHT + stored.body.length);
  const verdict = await judge(call, definition, accounts, context);
  if (verdict.kind !== 'genuine') return verdict;
  const parsed = definition.parse(call);
  if (parsed.kind !== 'receipts') return parsed;
  if (parsed.receipts.length > REPORTS_MAX) return { kind: 'unreadable' };
  const origin = {
    ...stored,
    redact: createRedactor(accounts.flatMap(({ secrets }) => secretStrings(secrets))),
    verified: verdict.isUnsigned !== true,
  };
  const reports: CallReportRow[] = [];
  for (const some of chunks(parsed.receipts, REPORTS_IN_A_TURN)) {
    await deps.turns(some.length * REPORT_WEIGHT);
    for (const one of some)
      reports.push({ call_id: stored.id, ...toReport(one, placeOf(one.reference, deps.ids), origin) });
  }
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
