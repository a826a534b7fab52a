import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import messagebird from './provider.ts';
import { messagebirdReceipts } from './receipts.ts';
import { messagebirdClaims, messagebirdToken, signMessagebirdCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const ID = 'e8077d803532c0b5937c639b60216938';
const account = {
  publicConfig: { originator: '+15005550006' },
  secretConfig: { accessKey: 'key', signingKey: 'canary-signing-key-1' },
};

const sha256 = (of: string | Uint8Array) => createHash('sha256').update(of).digest('hex');
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

const report = (status: string, over: Record<string, string> = {}): UnsignedCall => ({
  method: 'GET',
  query: `?${new URLSearchParams({
    id: ID,
    reference: REFERENCE,
    recipient: '15551230001',
    status,
    statusDatetime: '2026-11-22T11:59:30+00:00',
    messagePartCount: '1',
    ...over,
  }).toString()}`,
});

const about = { reference: REFERENCE, providerMessageId: ID, at: Date.UTC(2026, 10, 22, 11, 59, 30) };
const failed = (name: string, status: string, over: Record<string, string>, failure: object) => ({
  name,
  call: report(status, { id: sha256(name), ...over }),
  receipts: [
    { ...about, providerMessageId: sha256(name), state: 'undelivered' as const, failure: failure as never },
  ],
});

receiptSuite({
  provider: messagebird,
  account,
  otherAccount: { ...account, secretConfig: { accessKey: 'key', signingKey: 'canary-signing-key-2' } },
  reference: REFERENCE,
  sign: signMessagebirdCall,
  covers: { body: true, url: true, timestamp: true },
  calls: [
    {
      name: 'scheduled',
      call: report('scheduled'),
      receipts: [{ ...about, providerStatus: 'scheduled' }],
    },
    { name: 'sent', call: report('sent'), receipts: [{ ...about, state: 'sent' }] },
    { name: 'buffered', call: report('buffered'), receipts: [{ ...about, state: 'sent' }] },
    { name: 'delivered', call: report('delivered'), receipts: [{ ...about, state: 'delivered' }] },
    failed(
      'a failure with a known code',
      'delivery_failed',
      { statusErrorCode: '103', statusReason: 'carrier rejected' },
      { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '103' },
    ),
    ...['1', '2', '3', '5'].map((statusErrorCode) =>
      failed(
        `a failure with the code ${statusErrorCode} alone`,
        'delivery_failed',
        { statusErrorCode },
        { class: 'invalid_recipient', code: 'unreachable_number', providerCode: statusErrorCode },
      ),
    ),
    failed(
      'a failure with a known reason',
      'delivery_failed',
      { statusErrorCode: '199', statusReason: 'unknown subscriber' },
      { class: 'invalid_recipient', code: 'unreachable_number', providerCode: '199' },
    ),
    failed(
      'a failure with a reason spelled with underscores',
      'delivery_failed',
      { statusReason: 'Received_network_error' },
      { class: 'provider_unavailable', code: 'network_error' },
    ),
    failed(
      'a failure without a known code or reason',
      'delivery_failed',
      { statusErrorCode: '255', statusReason: 'generic delivery failure' },
      { class: 'unknown', code: 'undelivered', providerCode: '255' },
    ),
    failed('expired', 'expired', {}, { class: 'recipient_unavailable', code: 'message_expired' }),
    {
      name: 'an inbound message',
      call: { method: 'GET', query: `?id=${ID}&originator=15551230001&recipient=15005550006&body=Hi` },
      receipts: [],
    },
  ],
});

describe('a MessageBird report', () => {
  const NOW = 1_700_000_000_000;
  const key = account.secretConfig.signingKey;
  const call = (over: Partial<ReceiptCall> = {}): ReceiptCall => ({
    method: 'GET',
    url: `${RECEIPT_URL}?id=${ID}&status=sent`,
    headers: {},
    body: new Uint8Array(),
    receivedAt: NOW,
    ...over,
  });
  const judge = (one: ReceiptCall, signingKey: string | undefined = key) =>
    messagebirdReceipts.verify?.(one, { config: {}, secrets: { signingKey } }, undefined as never);
  const tokened = (token: string, one = call()): ReceiptCall => ({
    ...one,
    headers: { 'messagebird-signature-jwt': token },
  });
  const withClaims = (change: Record<string, unknown>) =>
    tokened(messagebirdToken({ ...messagebirdClaims(call(), NOW), ...change }, key));

  test('may be unsigned only if no signing key is configured', async () => {
    const verify = messagebirdReceipts.verify;
    expect(await verify?.(call(), { config: {}, secrets: {} }, undefined as never)).toEqual({
      kind: 'genuine',
      isUnsigned: true,
    });
    expect(await judge(call())).toEqual({ kind: 'forged', reason: 'signature_missing' });
  });

  test.each(['HS256', 'HS384', 'HS512'] as const)('may be signed by %s', async (algorithm) => {
    expect(await judge(tokened(messagebirdToken(messagebirdClaims(call(), NOW), key, algorithm)))).toEqual({
      kind: 'genuine',
    });
  });

  test('with the algorithm none is forged', async () => {
    const token = `${part({ alg: 'none', typ: 'JWT' })}.${part(messagebirdClaims(call(), NOW))}.`;
    expect(await judge(tokened(token))).toEqual({ kind: 'forged', reason: 'signature_mismatch' });
  });

  test.each([
    ['with another issuer', { iss: 'Somebody' }],
    ['without its URL', { url_hash: undefined }],
    ['for another URL', { url_hash: sha256('https://hooks.example/') }],
    ['without an id', { jti: undefined }],
    ['without an expiry', { exp: undefined }],
    ['with a hash of an absent body', { payload_hash: sha256('x') }],
  ])('%s is forged', async (_, change) => {
    expect(await judge(withClaims(change))).toEqual({ kind: 'forged', reason: 'signature_mismatch' });
  });

  test('with a body requires its payload hash', async () => {
    const body = Buffer.from('x');
    const { payload_hash, ...rest } = messagebirdClaims(call({ body }), NOW);
    expect(await judge(tokened(messagebirdToken({ ...rest, payload_hash }, key), call({ body })))).toEqual({
      kind: 'genuine',
    });
    expect(await judge(tokened(messagebirdToken(rest, key), call({ body })))).toMatchObject({
      kind: 'forged',
    });
  });

  test.each([-3_600_000, 3_600_000, -301_000, 301_000])(
    'signed %i ms from its arrival is outside the time tolerance',
    async (offset) => {
      expect(await judge(signMessagebirdCall(call(), account, NOW + offset))).toEqual({
        kind: 'forged',
        reason: 'timestamp_out_of_tolerance',
      });
    },
  );

  test.each(['2026-11-22T11:59:30+00:00', '2026-11-22T12:59:30%2B01:00'])(
    'has its time parsed with and without an escaped plus: %s',
    (time) => {
      const parsed = messagebirdReceipts.parse(
        call({ url: `${RECEIPT_URL}?id=${ID}&status=sent&statusDatetime=${time}` }),
      );
      expect(parsed).toMatchObject({ receipts: [{ at: about.at }] });
    },
  );
});
