import { describe, expect, test } from 'vitest';
import { parseAccount, receiptsOf } from '#providers/registry.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import type { ProviderContext } from '#providers/provider.ts';
import type { ReceiptCall, ReceiptVerdict } from '#providers/receipt.ts';
import { CATALOG_ACCOUNTS } from '#test/support/catalog-accounts.ts';
import { deliveryReport, REPORTING } from '#test/support/vendor-reports.ts';
import { slowGrowth } from '#test/support/slow-growth.ts';

const URL_CALLED = `https://hooks.example/v1/receipts/7f3b2a34-1111-4222-8333-444455556666/1.${'A'.repeat(32)}`;
const numbered = (n: number, of: (i: number) => string): string[] =>
  Array.from({ length: Math.floor(n / of(99_999).length) }, (_, i) => of(10_000 + i));

/** Bodies of about the given size whose parsing costs much time or memory unless it is a single pass. */
const BOMBS: Readonly<Record<string, (bytes: number) => string | Buffer>> = {
  'parameters of one name each': (n) => `sig=a&${numbered(n, (i) => `k${i}=&`).join('')}`,
  'one parameter again and again': (n) => 'a=1&'.repeat(n / 4),
  'parameters with two values': (n) => numbered(n, (i) => `k${i >> 1}=${i}&`).join(''),
  'escapes of a form': (n) => `a=${'%41'.repeat(n / 3)}`,
  'broken escapes of a form': (n) => `a=${'%zz'.repeat(n / 3)}`,
  'open lists': (n) => '['.repeat(n),
  'nested lists': (n) => '['.repeat(n / 2) + ']'.repeat(n / 2),
  'nested objects': (n) => `${'{"a":'.repeat(n / 6)}1${'}'.repeat(n / 6)}`,
  'nested prototypes': (n) => `${'{"__proto__":'.repeat(n / 14)}1${'}'.repeat(n / 14)}`,
  'an object of many names': (n) => `{${numbered(n, (i) => `"k${i}":1`).join(',')}}`,
  'a list of objects': (n) => `[${'{},'.repeat(n / 3)}{}]`,
  'a list of lists': (n) => `[${'[],'.repeat(n / 3)}[]]`,
  'a long number': (n) => `[${'1'.repeat(n)}]`,
  'a long exponent': (n) => `[1e${'9'.repeat(n)}]`,
  'escapes of JSON': (n) => `["${String.raw`\u0041`.repeat(n / 6)}"]`,
  'white space': (n) => ' '.repeat(n),
  'angle brackets': (n) => '<'.repeat(n),
  'entities of entities': (n) =>
    `<!DOCTYPE a [<!ENTITY a "a">${'<!ENTITY b "&a;&a;">'.repeat(n / 20)}]><a>&b;</a>`,
  'bytes that are no text': (n) => Buffer.alloc(n, 0xff),
  NUL: (n) => Buffer.alloc(n),
};

/** A report of the vendor with the text in its text fields. */
const inside = (provider: (typeof REPORTING)[number], text: string): string =>
  deliveryReport(provider, { reference: text, vendorId: text }).body;

const context = {
  http: async () => ({ kind: 'not_sent', code: 'connect_refused' }),
  origin: (origin: string) => origin,
  memo: async <T>(_: string, load: () => Promise<{ value: T }>) => (await load()).value,
  epochMs: () => Date.UTC(2026, 10, 22, 12),
} as unknown as ProviderContext;

function readerOf(provider: (typeof REPORTING)[number]) {
  const definition = PROVIDERS.get(provider);
  const receipts = receiptsOf(definition);
  const sent = CATALOG_ACCOUNTS[provider];
  if (definition === undefined || receipts === undefined) throw new Error(`${provider} reports nothing`);
  const account = parseAccount(definition, sent.publicConfig, sent.secretConfig);
  if (!account.ok) throw new Error(JSON.stringify(account.details));
  const headers = Object.fromEntries(receipts.headers.map((name) => [name, headerOf(name)]));
  const callOf = (body: string | Buffer): ReceiptCall => ({
    method: 'POST',
    url: URL_CALLED,
    headers,
    body: Buffer.from(body),
    receivedAt: context.epochMs(),
  });
  return {
    callOf,
    /** Parses and verifies as a worker does; it verifies even where the parse would have ended the read. */
    read: async (call: ReceiptCall): Promise<ReceiptVerdict | undefined> => {
      receipts.parse(call);
      return receipts.verify?.(call, account as never, context);
    },
    parse: receipts.parse,
  };
}

function headerOf(name: string): string {
  if (name === 'content-type') return 'application/x-www-form-urlencoded';
  if (name === 'authorization') return '';
  return name.includes('timestamp') ? '1795348800' : 'A'.repeat(86);
}

describe.each(REPORTING)('%s', (provider) => {
  const { read, callOf, parse } = readerOf(provider);

  test('parses and verifies a receipt call in linear time, whatever its body', async () => {
    const slow: string[] = [];
    const bodies = { ...BOMBS, 'its own form': (n: number) => inside(provider, 'a@b '.repeat(n / 8)) };
    for (const [name, make] of Object.entries(bodies)) {
      const [short, long] = [callOf(make(20_000)), callOf(make(200_000))];
      // Linear growth is a factor of ten for ten times the length; the test allows five times that for a busy machine. Quadratic
      // growth is a factor of a hundred.
      const took = await slowGrowth(
        () => read(short),
        () => read(long),
        50,
      );
      if (took !== undefined) slow.push(`${name}: ${took}`);
    }
    expect(slow).toEqual([]);
  });

  test('is not open to prototype pollution by a receipt call', async () => {
    const names = Object.getOwnPropertyNames(Object.prototype);
    for (const key of ['__proto__', 'constructor', 'prototype']) {
      const text = `{"${key}":{"isPolluted":true,"status":"delivered","prototype":{"isPolluted":true}}}`;
      const bodies = [text, `[${text}]`, `${key}[isPolluted]=true&${key}=x&${key}.isPolluted=true`];
      for (const body of [...bodies, inside(provider, key), inside(provider, 'a').replaceAll('"a"', text)])
        await read(callOf(body));
    }
    expect(({} as { isPolluted?: unknown }).isPolluted).toBeUndefined();
    expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(names);
  });

  test('does not look up a status of a receipt call among the properties of Object.prototype', () => {
    for (const word of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
      const { body, query } = deliveryReport(provider, { reference: 'r', vendorId: 'v' });
      const said = /DELIVERED_TO_HANDSET|TEXT_DELIVERED|delivered|Delivered|Delivery|DELIVERED/g;
      const url = URL_CALLED + query.replace(said, word);
      const parsed = parse({ ...callOf(body.replace(said, word)), url });
      for (const { state, engagement, failure } of parsed.kind === 'receipts' ? parsed.receipts : []) {
        expect([undefined, 'sent', 'undelivered', 'delivered']).toContain(state);
        expect(['undefined', 'string']).toContain(typeof engagement);
        for (const value of Object.values(failure ?? {}))
          expect(['string', 'number']).toContain(typeof value);
      }
    }
  });
});
