import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { createMessageIds } from '#core/domain/message-id.ts';
import { receiptToken, receiptUrl } from '#core/domain/receipt-token.ts';
import type { ReceiptCall } from '#providers/receipt.ts';
import { findProvider } from '#providers/registry.ts';
import { signMessagebirdCall } from '#providers/messagebird/stand-in-signature.ts';
import { readCall } from './read-call.ts';

const ACCOUNT_ID = '1f0c7b52-1111-4222-8333-444455556666';
const BASE = 'https://hooks.example';
const KEY = createSecretKey(Buffer.alloc(32, 1));
const QUERY = '?id=e8077d803532c0b5937c639b60216938&reference=none&status=delivered';

function read(headers: Readonly<Record<string, string>>, secrets: Record<string, unknown>) {
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
    },
    [{ id: ACCOUNT_ID, provider, version: 1, config: {}, secrets, row: null }],
    undefined as never,
    {
      publicBaseUrl: BASE,
      receiptKey: KEY,
      ids: createMessageIds(Buffer.alloc(16)),
      turns: () => Promise.resolve(),
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

test('a large receipt call is read in turns of the event loop, 64 reports at a time', async () => {
  const provider = findProvider('sendgrid');
  if (provider === undefined) throw new Error('sendgrid is part of the catalog');
  const events = Array.from({ length: 200 }, (_, n) => ({
    event: 'delivered',
    sg_event_id: `e${n}`,
    sg_message_id: `m${n}`,
  }));
  const body = Buffer.from(JSON.stringify(events));
  const weights: number[] = [];
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
    },
    [{ id: ACCOUNT_ID, provider, version: 1, config: {}, secrets: { apiKey: 'k' }, row: null }],
    undefined as never,
    {
      publicBaseUrl: BASE,
      receiptKey: KEY,
      ids: createMessageIds(Buffer.alloc(16)),
      turns: async (weight) => void weights.push(weight),
    },
  );
  expect(reading).toMatchObject({ kind: 'read', reports: { length: 200 } });
  expect(weights).toEqual([8_192 + body.length, 64 * 2_048, 64 * 2_048, 64 * 2_048, 8 * 2_048]);
});
