import { chunks } from '#core/domain/chunks.ts';
import { createJsonScan } from '#core/domain/text/json-scan.ts';
import type { MessageIds } from '#core/domain/storage/message-id.ts';
import { receiptToken, receiptUrl, type ReceiptKey } from '#core/domain/receipts/receipt-token.ts';
import type { LoopTurns } from '#core/platform/process/loop-turns.ts';
import type { CallReportRow, StoredReceiptCall } from '#core/store/receipts/receipt-reports.ts';
import { ELEMENTS_MAX } from '#providers/bounded-elements.ts';
import type { ProviderContext } from '#providers/provider.ts';
import type { ForgeryReason, ReceiptCall, ReceiptDefinition, ReceiptVerdict } from '#providers/receipt.ts';
import { createRedactor, secretStrings } from '#providers/redact.ts';
import { receiptsOf } from '#providers/registry.ts';
import { UNSIGNED } from '#providers/signature.ts';
import type { Account } from '../accounts/accounts.ts';
import { placeOf, toReport } from './to-report.ts';

/** Processing one report takes as long as processing this many bytes: some hundredths of a millisecond. */
export const REPORT_WEIGHT = 2_048;
const REPORTS_IN_A_TURN = 64;
/** Cost in bytes of the signature check and other work that each call needs, however small it is. */
const CALL_WEIGHT = 8_192;
/**
 * The most marks of a call that is parsed, see {@link createJsonScan}. A full call of SendGrid's has fewer than 350,000; empty lists
 * fit into it two million times, and parsing them blocks the event loop for a quarter of a second.
 */
const MARKS_MAX = 400_000;

/** The result of reading a vendor's call. */
export type CallReading =
  | { readonly kind: 'read'; readonly reports: readonly CallReportRow[] }
  | { readonly kind: 'confirm'; readonly url: string }
  | { readonly kind: 'forged'; readonly reason: ForgeryReason }
  /** The call is not in the vendor's format, or its account takes no receipts. */
  | { readonly kind: 'unreadable' }
  /** The call is read again later. `isMisconfigured`: it waits for usable settings of its account. */
  | { readonly kind: 'undecided'; readonly isMisconfigured?: boolean };

export type ReadCallDeps = {
  readonly publicBaseUrl: string;
  readonly receiptKey: ReceiptKey;
  readonly ids: MessageIds;
  /** Limits the bytes of concurrently read calls per turn of the event loop, so that they do not delay messages. */
  readonly turns: LoopTurns;
  /** Called with the milliseconds that work on the call has just kept the event loop. */
  readonly spent: (ms: number) => void;
};

/**
 * Verifies a call with each secret of the account that is in force, and parses it if one of them matches.
 * @param accounts the account with its current secret, then with the previous one while that is still valid.
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
  const timed = createTimer(deps.spent);
  await deps.turns(CALL_WEIGHT + stored.body.length);
  // Before the verdict, because some signatures are inside the JSON.
  if (timed(() => hasTooManyValues(stored.body))) return { kind: 'unreadable' };
  const verdict = await timed(() => judge(call, definition, accounts, context));
  if (verdict.kind !== 'genuine') return verdict;
  // Without its secret an account takes unsigned calls, but none that it refused before.
  if (stored.wasRefused && verdict.isUnsigned === true)
    return { kind: 'forged', reason: 'signature_mismatch' };
  const parsed = timed(() => definition.parse(call));
  if (parsed.kind !== 'receipts') return parsed;
  if (parsed.receipts.length > ELEMENTS_MAX) return { kind: 'unreadable' };
  const origin = {
    ...stored,
    redact: createRedactor(accounts.flatMap(({ secrets }) => secretStrings(secrets))),
    verified: verdict.isUnsigned !== true,
  };
  const reports: CallReportRow[] = [];
  for (const some of chunks(parsed.receipts, REPORTS_IN_A_TURN)) {
    await deps.turns(some.length * REPORT_WEIGHT);
    timed(() => {
      for (const one of some)
        reports.push({ call_id: stored.id, ...toReport(one, placeOf(one.reference, deps.ids), origin) });
    });
  }
  return { kind: 'read', reports };
}

function hasTooManyValues(body: Uint8Array): boolean {
  if (body.length < MARKS_MAX) return false;
  const scan = createJsonScan();
  scan.push(body);
  return scan.marks() > MARKS_MAX;
}

/** Returns a function that runs work and reports how long it took until it returned. */
function createTimer(spent: ReadCallDeps['spent']): <Result>(work: () => Result) => Result {
  return (work) => {
    const begun = performance.now();
    try {
      return work();
    } finally {
      spent(performance.now() - begun);
    }
  };
}

/** Returns genuine if any secret matches; else undecided if any verdict is; else the verdict of the current secret. */
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
