import { createSecretKey } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { createMessageIds } from '#core/domain/storage/message-id.ts';
import { receiptToken, receiptUrl } from '#core/domain/receipts/receipt-token.ts';
import { ELEMENTS_MAX } from '#providers/bounded-elements.ts';
import type { ParsedCall, ReceiptCall, ReceiptVerdict } from '#providers/receipt.ts';
import { findProvider } from '#providers/registry.ts';
import { signMessagebirdCall } from '#providers/messagebird/stand-in-signature.ts';
import { readCall, type CallReading } from './read-call.ts';

const ACCOUNT_ID = '1f0c7b52-1111-4222-8333-444455556666';
const BASE = 'https://hooks.example';
const KEY = createSecretKey(Buffer.alloc(32, 1));
const QUERY = '?id=e8077d803532c0b5937c639b60216938&reference=none&status=delivered';

function read(
  headers: Readonly<Record<string, string>>,
  secrets: Record<string, unknown>,
  wasRefused = false,
) {
  const provider = findProvider('messagebird');
  if (provider === undefined) throw new Error('messagebird is part of the catalog');
  return readCall(
    {
      id: 1,
      tenantId: 't',
      accountId: ACCOUNT_ID,
      accountVersion: 1,
      method: 'GET',
      receiptVersion: 1,
      query: QUERY,
      headers,
      body: Buffer.alloc(0),
      receivedMs: Date.now(),
      traceparent: null,
      tries: 1,
      wasRefused,
    },
    [{ id: ACCOUNT_ID, provider, version: 1, config: {}, secrets, row: null }],
    undefined as never,
    {
      publicBaseUrl: BASE,
      receiptKey: KEY,
      ids: createMessageIds(Buffer.alloc(16)),
      turns: () => Promise.resolve(),
      spent: () => undefined,
    },
  );
}

const signed = (secrets: Record<string, unknown>): Readonly<Record<string, string>> => {
  const call: ReceiptCall = {
    method: 'GET',
    url: receiptUrl(BASE, ACCOUNT_ID, receiptToken(KEY, ACCOUNT_ID, 1)) + QUERY,
    headers: {},
    body: Buffer.alloc(0),
    receivedAt: Date.now(),
  };
  return signMessagebirdCall(call, { publicConfig: {}, secretConfig: secrets }, Date.now()).headers;
};

test('a report counts as verified only with a signature, not because of its secret URL', async () => {
  const secrets = { accessKey: 'key', signingKey: 'signing' };
  expect(await read(signed(secrets), secrets)).toMatchObject({ kind: 'read', reports: [{ verified: true }] });
  expect(await read({}, { accessKey: 'key' })).toMatchObject({
    kind: 'read',
    reports: [{ verified: false }],
  });
  expect(await read({}, secrets)).toMatchObject({ kind: 'forged' });
});

test('a call that was refused before counts only if it is signed', async () => {
  const secrets = { accessKey: 'key', signingKey: 'signing' };
  expect(await read(signed(secrets), secrets, true)).toMatchObject({ kind: 'read' });
  expect(await read({}, { accessKey: 'key' }, true)).toMatchObject({ kind: 'forged' });
});

/** Reads a call of SendGrid's with this body. */
async function readEvents(body: Buffer) {
  const provider = findProvider('sendgrid');
  if (provider === undefined) throw new Error('sendgrid is part of the catalog');
  const weights: number[] = [];
  let spentMs = 0;
  const reading = await readCall(
    {
      id: 1,
      tenantId: 't',
      accountId: ACCOUNT_ID,
      accountVersion: 1,
      method: 'POST',
      receiptVersion: 1,
      query: '',
      headers: {},
      body,
      receivedMs: Date.now(),
      traceparent: null,
      tries: 1,
      wasRefused: false,
    },
    [{ id: ACCOUNT_ID, provider, version: 1, config: {}, secrets: { apiKey: 'k' }, row: null }],
    undefined as never,
    {
      publicBaseUrl: BASE,
      receiptKey: KEY,
      ids: createMessageIds(Buffer.alloc(16)),
      turns: async (weight) => void weights.push(weight),
      spent: (ms) => void (spentMs += ms),
    },
  );
  return { reading, weights, spentMs };
}

/** Returns a JSON list that is as long as SendGrid's calls may be. */
function longestList(element: string): Buffer {
  const count = Math.floor((4 * 1024 * 1024) / (element.length + 1));
  return Buffer.from(`[${Array.from({ length: count }, () => element).join(',')}]`);
}

test('a large receipt call is read in turns of the event loop, 64 reports at a time', async () => {
  const events = Array.from({ length: 200 }, (_, n) => ({
    event: 'delivered',
    sg_event_id: `e${n}`,
    sg_message_id: `m${n}`,
  }));
  const body = Buffer.from(JSON.stringify(events));
  const { reading, weights, spentMs } = await readEvents(body);
  expect(reading).toMatchObject({ kind: 'read', reports: { length: 200 } });
  expect(weights).toEqual([8_192 + body.length, 64 * 2_048, 64 * 2_048, 64 * 2_048, 8 * 2_048]);
  expect(spentMs).toBeGreaterThan(0);
});

test.each([
  ['nested lists', Buffer.from('['.repeat(4 * 1024 * 1024))],
  ['empty lists', longestList('[[]]')],
  ['tiny objects', longestList('{"":{}}')],
])(
  'a receipt call of more values than any vendor sends is unreadable without being parsed: %s',
  async (_, body) => {
    const parse = vi.spyOn(JSON, 'parse');
    try {
      expect((await readEvents(body)).reading).toEqual({ kind: 'unreadable' });
      expect(parse).not.toHaveBeenCalled();
    } finally {
      parse.mockRestore();
    }
  },
);

test('a receipt call as full of events as one can be is read', async () => {
  const event = {
    email: 'ada@example.com',
    timestamp: 1_700_000_000,
    event: 'open',
    sg_event_id: 'a'.repeat(22),
  };
  const more = { ip: '198.51.100.7', useragent: 'Mozilla/5.0', category: ['a', 'b'], sg_machine_open: false };
  const own = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`key${i}`, `value${i}`]));
  const ids = {
    sg_message_id: `${'b'.repeat(22)}.recvd-5c9c6c-d-1-2.0`,
    'smtp-id': `<${'c'.repeat(22)}@geopod>`,
  };
  const { reading } = await readEvents(longestList(JSON.stringify({ ...event, ...more, ...ids, ...own })));
  expect(reading.kind).toBe('read');
});

const GENUINE: ReceiptVerdict = { kind: 'genuine' };
const UNDECIDED: ReceiptVerdict = { kind: 'undecided' };
const MISSING: ReceiptVerdict = { kind: 'forged', reason: 'signature_missing' };
const WRONG: ReceiptVerdict = { kind: 'forged', reason: 'signature_mismatch' };

/** Reads a call to an account with one secret for each verdict; `parsed` is what the call contains. */
async function readBy(verdicts: readonly ReceiptVerdict[], parsed: ParsedCall) {
  const asked: number[] = [];
  const receipts = {
    headers: [],
    verify: async (_: ReceiptCall, { secrets }: { secrets: { n: number } }) => {
      asked.push(secrets.n);
      return verdicts[secrets.n];
    },
    parse: () => parsed,
  };
  const accounts = verdicts.map((_, n) => ({
    id: ACCOUNT_ID,
    provider: { id: 'signing', receipts },
    version: 1,
    config: {},
    secrets: { n },
    row: null,
  }));
  const reading = await readCall(
    {
      id: 1,
      accountId: ACCOUNT_ID,
      receiptVersion: 1,
      query: '',
      headers: {},
      body: Buffer.alloc(1),
    } as never,
    accounts as never,
    undefined as never,
    {
      publicBaseUrl: BASE,
      receiptKey: KEY,
      ids: createMessageIds(Buffer.alloc(16)),
      turns: () => Promise.resolve(),
      spent: () => undefined,
    },
  );
  return { reading, asked };
}

const NOTHING: ParsedCall = { kind: 'receipts', receipts: [] };

test.each<[what: string, verdicts: readonly ReceiptVerdict[], reading: CallReading, asked: number[]]>([
  ['the current one', [GENUINE, WRONG], { kind: 'read', reports: [] }, [0]],
  ['the previous one', [WRONG, GENUINE], { kind: 'read', reports: [] }, [0, 1]],
  ['neither', [MISSING, WRONG], { kind: 'forged', reason: 'signature_missing' }, [0, 1]],
  ['neither certainly, the previous one perhaps', [WRONG, UNDECIDED], { kind: 'undecided' }, [0, 1]],
  ['neither certainly, the current one perhaps', [UNDECIDED, WRONG], { kind: 'undecided' }, [0, 1]],
])('of two secrets a call may be signed with %s', async (_, verdicts, reading, asked) => {
  expect(await readBy(verdicts, NOTHING)).toEqual({ reading, asked });
});

test('a call of more reports than a vendor sends is unreadable, and so is one in another format', async () => {
  const reports = (length: number): ParsedCall => ({
    kind: 'receipts',
    receipts: Array.from({ length }, () => ({ providerStatus: 'x' })),
  });
  expect((await readBy([GENUINE], reports(ELEMENTS_MAX))).reading.kind).toBe('read');
  expect((await readBy([GENUINE], reports(ELEMENTS_MAX + 1))).reading).toEqual({ kind: 'unreadable' });
  expect((await readBy([GENUINE], { kind: 'unreadable' })).reading).toEqual({ kind: 'unreadable' });
});

test('an account whose provider sends no receipts has no readable call', async () => {
  const account = { id: ACCOUNT_ID, provider: findProvider('smtp'), version: 1, config: {}, secrets: {} };
  const reading = await readCall({} as never, [account as never], undefined as never, {} as never);
  expect(reading).toEqual({ kind: 'unreadable' });
});
