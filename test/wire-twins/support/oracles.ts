import { describe, expect, test } from 'vitest';
import type { ProviderContext } from '../../../services/providers/provider.ts';
import type { ReceiptCall, ReceiptDefinition, ReceiptVerdict } from '../../../services/providers/receipt.ts';
import { findProvider, parseAccount } from '../../../services/providers/registry.ts';
import type { SentAccount } from '../../suites/provider-conformance.ts';
import { RECEIPT_URL } from '../../suites/receipt-conformance.ts';

export type Oracle = {
  readonly name: string;
  /** The provider's id in the catalog. */
  readonly provider: string;
  readonly account: SentAccount;
  /** The vendor's call; a POST by default. */
  readonly call: {
    readonly method?: 'GET' | 'POST';
    /** Appended to the receipt URL. */
    readonly query?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: string;
  };
  /** Signs with the vendor's code; absent where that code cannot sign. */
  readonly signedByVendor?: (call: ReceiptCall) => ReceiptCall | Promise<ReceiptCall>;
  /** The signer that the stand-in and the provider's own tests use. */
  readonly signedByUs: (call: ReceiptCall) => ReceiptCall | Promise<ReceiptCall>;
  /** Verifies with the vendor's code; absent where that code cannot verify. False or an error: the call is refused. */
  readonly takenByVendor?: (call: ReceiptCall) => unknown;
  /** Changes one byte that the signature covers. Default: a byte of the body. */
  readonly changed?: (call: ReceiptCall) => ReceiptCall;
  /** For the verification by the adapter. */
  readonly context?: ProviderContext;
};

/** Tests that the adapter accepts what the vendor's code signs and the reverse, and that neither accepts a changed byte. */
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
      "$provider: $name is genuine to the vendor's code, and refused with one byte changed",
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

/** Returns the vendor's call as it arrives, before it is signed. */
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
  // Only headers that the definition names are stored.
  return definition.verify?.({ ...call, headers: Object.fromEntries(kept) }, parsed, context ?? NO_CONTEXT);
}

async function isTakenBy(judge: NonNullable<Oracle['takenByVendor']>, call: ReceiptCall) {
  try {
    return { isTaken: (await judge(call)) !== false };
  } catch (error) {
    return { isTaken: false, error };
  }
}

/** Flips one bit of the byte in the middle, which keeps the length of the text and valid JSON. */
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
  epochMs: Date.now,
};
