import { describe, expect, test } from 'vitest';
import type { Engagement } from '#core/domain/receipts/engagement.ts';
import type { AnyProvider, ProviderContext } from '#providers/provider.ts';
import {
  TIMESTAMP_TOLERANCE_MS,
  type ParsedReceipt,
  type ReceiptCall,
  type ReceiptDefinition,
  type ReceiptVerdict,
} from '#providers/receipt.ts';
import { parseAccount } from '#providers/registry.ts';
import type { SentAccount } from './provider-conformance.ts';

/** A call of the vendor before it is signed. */
export type UnsignedCall = {
  readonly method?: 'GET' | 'POST';
  /** Appended to the receipt URL, for example `?mid=1`. */
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
};

export type ReceiptCase = {
  readonly provider: AnyProvider;
  readonly account: SentAccount;
  /** The same account with another signing secret. */
  readonly otherAccount: SentAccount;
  /** The public id of the message that the calls report on. */
  readonly reference: string;
  /**
   * Signs a call as the vendor does, with the vendor's own code where there is any; undefined where calls are not signed.
   * @param at milliseconds since the epoch.
   */
  readonly sign: ((call: ReceiptCall, account: SentAccount, at: number) => ReceiptCall) | undefined;
  /** What the signature covers besides its own timestamp. */
  readonly covers: { readonly body: boolean; readonly url: boolean; readonly timestamp: boolean };
  /** Calls of every kind that the vendor makes, and what each reports. */
  readonly calls: readonly {
    readonly name: string;
    readonly call: UnsignedCall;
    readonly receipts: readonly Partial<ParsedReceipt>[];
  }[];
  /** The engagements that the calls report; default: all in the definition. */
  readonly tells?: readonly Engagement[];
  /** For the verification of calls; default: a context without a network. */
  readonly context?: ProviderContext;
};

export const RECEIPT_URL = 'https://hooks.example/v1/receipts/1f0c7b52-1111-4222-8333-444455556666/t0ken_-';
const NOW = Date.UTC(2026, 10, 22, 12);

/** Runs the tests that apply to every provider that sends receipts. */
export function receiptSuite(subject: ReceiptCase): void {
  const { provider, calls, covers } = subject;
  const definition = provider.receipts as ReceiptDefinition<unknown, unknown>;
  const [first] = calls;
  if (first === undefined) throw new Error('The suite was given no calls');
  const arrived = (unsigned: UnsignedCall): ReceiptCall => ({
    method: unsigned.method ?? 'POST',
    url: RECEIPT_URL + (unsigned.query ?? ''),
    headers: unsigned.headers ?? {},
    body: Buffer.from(unsigned.body ?? ''),
    receivedAt: NOW,
  });
  const signed = (unsigned: UnsignedCall, account = subject.account, at = NOW): ReceiptCall => {
    const call = subject.sign?.(arrived(unsigned), account, at) ?? arrived(unsigned);
    const kept = Object.entries(call.headers).filter(([name]) => definition.headers.includes(name));
    // Only headers that the definition names are stored.
    return { ...call, headers: Object.fromEntries(kept) };
  };
  const judge = async (call: ReceiptCall, sent = subject.account): Promise<ReceiptVerdict> => {
    const parsed = parseAccount(provider, sent.publicConfig, sent.secretConfig);
    if (!parsed.ok) throw new Error(`The suite's account is not valid: ${JSON.stringify(parsed.details)}`);
    const verdict = definition.verify?.(call, parsed, subject.context ?? UNREACHABLE);
    return (await verdict) ?? { kind: 'genuine' };
  };

  describe('receipts', () => {
    test('have setup steps in full sentences', () => {
      expect(definition.setup.steps.length).toBeGreaterThan(0);
      for (const step of definition.setup.steps) expect(step).toMatch(/\w{3}.*\.$/s);
      expect(definition.bytesMax ?? 0).toBeLessThanOrEqual(4 * 1024 * 1024);
      for (const name of definition.headers) expect(name).toBe(name.toLowerCase());
      expect(definition.verify === undefined).toBe(subject.sign === undefined);
    });

    test.each(calls)('$name is genuine and is parsed into its receipts', async ({ call, receipts }) => {
      const genuine = signed(call);
      expect(await judge(genuine)).toEqual({ kind: 'genuine' });
      const parsed = definition.parse(genuine);
      expect(parsed).toMatchObject({ kind: 'receipts', receipts });
      const found = parsed.kind === 'receipts' ? parsed.receipts : [];
      expect(found).toHaveLength(receipts.length);
      for (const one of found) {
        expect(one.reference ?? one.providerMessageId).toBeDefined();
        if (one.state !== 'undelivered') expect(one).not.toHaveProperty('failure');
        // The status must be one of the vendor's words, not a number, address or token.
        expect(one.providerStatus).toMatch(/^[A-Za-z][\w .:;-]{0,63}$/);
        expect(one.providerStatus).not.toMatch(/\d{5}/);
        if (one.state === 'undelivered') expect(one.failure).toMatchObject({ class: expect.any(String) });
      }
    });

    test('report the engagements that the catalog declares', () => {
      const told = calls.flatMap(({ receipts }) => receipts.flatMap(({ engagement }) => engagement ?? []));
      expect([...new Set(told)].toSorted()).toEqual(
        [...(subject.tells ?? definition.engagement ?? [])].toSorted(),
      );
    });

    test('have equal ids for a repeated report, and different ids for two reports', () => {
      const idsOf = (call: UnsignedCall): string[] => {
        const parsed = definition.parse(signed(call));
        return parsed.kind === 'receipts'
          ? parsed.receipts.map((one) => one.eventId ?? JSON.stringify(one))
          : [];
      };
      for (const { call } of calls) expect(idsOf(call)).toEqual(idsOf(call));
      const all = calls.flatMap(({ call }) => idsOf(call));
      expect(new Set(all).size).toBe(all.length);
    });

    test.each<[name: string, body: string]>([
      ['an empty body', ''],
      ['an HTML page', '<!doctype html><html><body>502</body></html>'],
      ['broken JSON', '{"a":'],
      ['JSON of another shape', '[[["a"]]]'],
      ['null', 'null'],
      ['deeply nested JSON', '['.repeat(100_000)],
      ['bytes that are not text', Buffer.from([0xff, 0xfe, 0x00, 0x80]).toString('latin1')],
      ['a million characters', 'x'.repeat(1_000_000)],
    ])('are not parsed from %s', (_, body) => {
      const call = arrived({ ...first.call, query: '', body });
      const parsed = definition.parse(call);
      expect(
        parsed.kind === 'unreadable' || (parsed.kind === 'receipts' && parsed.receipts.length === 0),
      ).toBe(true);
    });

    if (subject.sign === undefined) return;
    const { sign } = subject;

    test('without a signature are forged', async () => {
      expect(await judge(arrived(first.call))).toMatchObject({ kind: 'forged' });
    });

    test("signed with another account's secret are forged", async () => {
      const call = signed(first.call, subject.otherAccount);
      expect(await judge(call)).toMatchObject({ kind: 'forged' });
      // The same call is genuine for the other account, so the secret alone makes the difference.
      expect(await judge(call, subject.otherAccount)).toEqual({ kind: 'genuine' });
    });

    test('with a truncated, empty or invalid signature are forged', async () => {
      const call = signed(first.call);
      const unsigned = arrived(first.call).headers;
      for (const name of Object.keys(call.headers).filter((one) => call.headers[one] !== unsigned[one])) {
        const value = call.headers[name] ?? '';
        for (const other of [value.slice(0, -1), '', `${value}A`, 'é'.repeat(44), 'x'.repeat(100_000)]) {
          const verdict = await judge({ ...call, headers: { ...call.headers, [name]: other } });
          expect(verdict, `${name}: ${other.slice(0, 80)}`).toMatchObject({ kind: 'forged' });
        }
      }
    });

    test.runIf(covers.body).each(calls)('$name with one byte changed is forged', async ({ call }) => {
      const genuine = signed(call);
      if (genuine.body.length === 0) return;
      for (const position of [0, genuine.body.length >> 1, genuine.body.length - 1]) {
        const body = Buffer.from(genuine.body);
        body[position] = (body[position] ?? 0) ^ 1;
        expect(await judge({ ...genuine, body })).toMatchObject({ kind: 'forged' });
      }
      const body = Buffer.concat([genuine.body, Buffer.from('&x=1')]);
      expect(await judge({ ...genuine, body })).toMatchObject({ kind: 'forged' });
    });

    test.runIf(covers.url)('sent to another URL are forged', async () => {
      const genuine = signed(first.call);
      for (const url of [
        `${genuine.url}${genuine.url.includes('?') ? '&' : '?'}x=1`,
        genuine.url.replace('hooks.', 'other.'),
        `${genuine.url}x`,
      ])
        expect(await judge({ ...genuine, url })).toMatchObject({ kind: 'forged' });
    });

    test.runIf(covers.timestamp)('signed outside the time tolerance are forged', async () => {
      const judged = (offset: number) => judge(signed(first.call, subject.account, NOW + offset));
      const edge = TIMESTAMP_TOLERANCE_MS - 5_000;
      const beyond = TIMESTAMP_TOLERANCE_MS + 5_000;
      expect([await judged(-edge), await judged(edge)]).toEqual([{ kind: 'genuine' }, { kind: 'genuine' }]);
      expect([await judged(-beyond), await judged(beyond)]).toMatchObject([
        { kind: 'forged' },
        { kind: 'forged' },
      ]);
    });

    test('have different signatures for two accounts', () => {
      const of = (account: SentAccount) => {
        const { headers, body } = sign(arrived(first.call), account, NOW);
        return { headers, body: Buffer.from(body).toString() };
      };
      expect(of(subject.account)).not.toEqual(of(subject.otherAccount));
    });
  });
}

const UNREACHABLE: ProviderContext = {
  http: async () => ({ kind: 'not_sent', code: 'connect_refused' }),
  resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
  origin: (vendorOrigin) => vendorOrigin,
  memo: async (_, load) => (await load()).value,
  forget: () => undefined,
  signal: new AbortController().signal,
  epochMs: () => NOW,
};
