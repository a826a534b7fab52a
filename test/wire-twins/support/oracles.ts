import { describe, expect, test } from 'vitest';
import type { ProviderContext } from '../../../services/providers/provider.ts';
import type { ReceiptCall, ReceiptDefinition, ReceiptVerdict } from '../../../services/providers/receipt.ts';
import { findProvider, parseAccount } from '../../../services/providers/registry.ts';
import type { SentAccount } from '../../suites/provider-conformance.ts';
import { RECEIPT_URL } from '../../suites/receipt-conformance.ts';

export type Oracle = {
  readonly name: string;
  /** Id of the catalog. */
  readonly provider: string;
  readonly account: SentAccount;
  /** What the vendor calls with; a POST. */
  readonly call: {
    readonly method?: 'GET' | 'POST';
    /** What follows the receipt URL. */
    readonly query?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: string;
  };
  /** The vendor's code signs; absent where it has none that does. */
  readonly signedByVendor?: (call: ReceiptCall) => ReceiptCall | Promise<ReceiptCall>;
  /** The signer that our stand-in and the provider's own tests use. */
  readonly signedByUs: (call: ReceiptCall) => ReceiptCall | Promise<ReceiptCall>;
  /** The vendor's code verifies; absent where it has none that does. False or an error: it does not take the call. */
  readonly takenByVendor?: (call: ReceiptCall) => unknown;
  /** Changes one byte of what the signature covers. Default: of the body. */
  readonly changed?: (call: ReceiptCall) => ReceiptCall;
  /** For judging calls. */
  readonly context?: ProviderContext;
};

/** What a vendor's own code signs is genuine to us, and what ours signs is to it; with one byte changed neither is. */
export function oracles(cases: readonly Oracle[]): void {
  const signing = cases.flatMap((oracle) => {
    const { signedByVendor: sign } = oracle;
    return sign === undefined ? [] : [{ ...oracle, sign }];
  });
  const judging = cases.flatMap((oracle) => {
    const { takenByVendor: isTaken } = oracle;
    return isTaken === undefined ? [] : [{ ...oracle, isTaken }];
  });

  describe.runIf(signing.length > 0)("the vendor's signature", () => {
    test.each(signing)('$provider: $name is genuine, and forged with one byte changed', async (oracle) => {
      const call = await oracle.sign(callOf(oracle));
      expect(await verdictOf(oracle, call)).toEqual({ kind: 'genuine' });
      const { changed = changeBody } = oracle;
      expect(await verdictOf(oracle, changed(call))).toEqual({
        kind: 'forged',
        reason: 'signature_mismatch',
      });
    });
  });

  describe.runIf(judging.length > 0)('our signature', () => {
    test.each(judging)(
      '$provider: $name is taken by the vendor, and not with one byte changed',
      async (oracle) => {
        const call = await oracle.signedByUs(callOf(oracle));
        const { isTaken, changed = changeBody } = oracle;
        expect(await verdictOf(oracle, call)).toEqual({ kind: 'genuine' });
        expect(await isTakenBy(isTaken, call)).toEqual({ isTaken: true });
        expect(await isTakenBy(isTaken, changed(call))).toMatchObject({ isTaken: false });
      },
    );
  });
}

/** A call of the vendor as it arrives, before it is signed. */
export function callOf({
  call: { method = 'POST', query = '', headers = {}, body = '' },
}: Pick<Oracle, 'call'>): ReceiptCall {
  return { method, url: RECEIPT_URL + query, headers, body: Buffer.from(body), receivedAt: Date.now() };
}

export async function verdictOf(
  { provider: id, account, context }: Pick<Oracle, 'provider' | 'account' | 'context'>,
  call: ReceiptCall,
): Promise<ReceiptVerdict | undefined> {
  const provider = findProvider(id);
  const definition = provider?.receipts as ReceiptDefinition<unknown, unknown> | undefined;
  if (provider === undefined || definition === undefined) throw new Error(`The catalog lacks ${id}`);
  const parsed = parseAccount(provider, account.publicConfig, account.secretConfig);
  if (!parsed.ok) throw new Error(`The account is not valid: ${JSON.stringify(parsed.details)}`);
  const kept = Object.entries(call.headers).filter(([name]) => definition.headers.includes(name));
  // What the definition does not name is not stored.
  return definition.verify?.({ ...call, headers: Object.fromEntries(kept) }, parsed, context ?? NO_CONTEXT);
}

async function isTakenBy(judge: NonNullable<Oracle['takenByVendor']>, call: ReceiptCall) {
  try {
    return { isTaken: (await judge(call)) !== false };
  } catch (error) {
    return { isTaken: false, error };
  }
}

/** One bit of the byte in the middle, so that the text stays as long as it was and JSON stays JSON. */
function changeBody(call: ReceiptCall): ReceiptCall {
  const body = Buffer.from(call.body);
  const position = body.findLastIndex((byte) => byte >= 0x30 && byte <= 0x38);
  if (position === -1) throw new Error('The body has no digit to change');
  body[position] = (body[position] ?? 0) ^ 1;
  return { ...call, body };
}

const NO_CONTEXT: ProviderContext = {
  http: async () => ({ kind: 'not_sent', code: 'connect_refused' }),
  resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
  origin: (vendorOrigin) => vendorOrigin,
  memo: async (_, load) => (await load()).value,
  forget: () => undefined,
  signal: new AbortController().signal,
  now: Date.now,
};
