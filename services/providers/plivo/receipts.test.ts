import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  receiptSuite,
  RECEIPT_URL,
  type ReceiptCase,
  type UnsignedCall,
} from '#test/suites/receipt-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import plivo from './provider.ts';
import { plivoReceipts } from './receipts.ts';
import { signPlivoAddress, signPlivoCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const UUID = 'db3ce55a-7f1d-11e1-8ea7-1231380bc196';
const NONCE = '05429567804466091622';
const account = {
  publicConfig: { authId: 'MAXXXXXXXXXXXXXXXXXX', from: '+15005550006' },
  secretConfig: { authToken: 'canary-auth-token-1' },
};
const otherAccount = { ...account, secretConfig: { authToken: 'canary-auth-token-2' } };

const callback = (status: string, over: Record<string, string> = {}): UnsignedCall => ({
  query: `?mid=${REFERENCE}`,
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: new URLSearchParams({
    To: '15551230001',
    From: '15005550006',
    MessageUUID: UUID,
    ParentMessageUUID: UUID,
    Status: status,
    Units: '1',
    TotalRate: '0.00650',
    TotalAmount: '0.00650',
    MCC: '310',
    MNC: '004',
    PartInfo: '1 of 1',
    Sequence: '1',
    QueuedTime: '2026-11-22 12:00:00.000000',
    Type: 'sms',
    ...over,
  }).toString(),
});

const signature = (text: string, token: unknown) =>
  createHmac('sha256', String(token)).update(text).digest('base64');

const about = { reference: REFERENCE, providerMessageId: UUID };
const calls: ReceiptCase['calls'] = [
  { name: 'queued', call: callback('queued'), receipts: [{ ...about, providerStatus: 'queued' }] },
  { name: 'sent', call: callback('sent'), receipts: [{ ...about, state: 'sent' }] },
  {
    name: 'delivered',
    call: callback('delivered', { ErrorCode: '000' }),
    receipts: [{ ...about, state: 'delivered' }],
  },
  {
    name: 'undelivered with a known code',
    call: callback('undelivered', { ErrorCode: '200' }),
    receipts: [
      {
        ...about,
        state: 'undelivered',
        failure: { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '200' },
      },
    ],
  },
  {
    name: 'failed with an unknown code',
    call: callback('failed', { ErrorCode: '1000' }),
    receipts: [
      {
        ...about,
        state: 'undelivered',
        failure: { class: 'unknown', code: 'undelivered', providerCode: '1000' },
      },
    ],
  },
  {
    name: 'rejected without a code',
    call: callback('rejected'),
    receipts: [{ ...about, state: 'undelivered', failure: { class: 'unknown', code: 'undelivered' } }],
  },
  {
    name: 'a part of a long message',
    call: callback('sent', { MessageUUID: 'a-part', PartInfo: '2 of 2' }),
    receipts: [{ ...about, segment: 'a-part', state: 'sent' }],
  },
  {
    name: 'an inbound message',
    call: { body: `From=15551230001&To=15005550006&Text=Hi&MessageUUID=${UUID}` },
    receipts: [],
  },
];

const subject = { provider: plivo, account, otherAccount, reference: REFERENCE, calls };
describe('signed with V3', () => {
  receiptSuite({ ...subject, sign: signPlivoCall, covers: { body: true, url: true, timestamp: false } });
});
describe('signed with V2', () => {
  receiptSuite({ ...subject, sign: signPlivoAddress, covers: { body: false, url: false, timestamp: false } });
});

describe('a Plivo signature', () => {
  const judge = (call: ReceiptCall) =>
    plivoReceipts.verify?.(
      call,
      { config: {}, secrets: { authToken: account.secretConfig.authToken } },
      undefined as never,
    );
  const call = (over: Partial<ReceiptCall> = {}): ReceiptCall => ({
    method: 'POST',
    url: `${RECEIPT_URL}?mid=1`,
    headers: {},
    body: Buffer.from('MessageUUID=1&Status=sent'),
    receivedAt: 0,
    ...over,
  });

  test('V2 covers the URL without its query', () => {
    const signed = signPlivoAddress(call(), account);
    expect(judge({ ...signed, url: `${RECEIPT_URL}?mid=2` })).toEqual({ kind: 'genuine' });
    expect(judge({ ...signed, url: `${RECEIPT_URL}x?mid=1` })).toMatchObject({ kind: 'forged' });
  });

  test('V3 that is invalid is forged even with a valid V2', () => {
    const { headers } = signPlivoCall(call(), otherAccount);
    expect(judge(signPlivoAddress(call({ headers }), account))).toEqual({
      kind: 'forged',
      reason: 'signature_mismatch',
    });
  });

  test.each(['v2', 'v3'] as const)('%s may be from the main account only', (version) => {
    const { headers } = (version === 'v2' ? signPlivoAddress : signPlivoCall)(call(), account);
    const { [`x-plivo-signature-${version}`]: value = '', ...rest } = headers;
    expect(judge(call({ headers: { ...rest, [`x-plivo-signature-ma-${version}`]: value } }))).toEqual({
      kind: 'genuine',
    });
  });

  test('may be one of several in the header', () => {
    const { headers } = signPlivoCall(call(), account);
    const several = `${signature('x', 'other')}, ${headers['x-plivo-signature-v3']}`;
    expect(judge(call({ headers: { ...headers, 'x-plivo-signature-v3': several } }))).toEqual({
      kind: 'genuine',
    });
  });

  test('without a nonce counts as missing', () => {
    const { headers } = signPlivoCall(call(), account);
    const { 'x-plivo-signature-v3-nonce': _, ...rest } = headers;
    expect(judge(call({ headers: rest }))).toEqual({ kind: 'forged', reason: 'signature_missing' });
  });

  test.each([
    ['a query alone', `${RECEIPT_URL}?b=2&a=1`, '', '?a=1&b=2'],
    ['a body alone', RECEIPT_URL, 'b=2&a=1&a=0', '?a0a1b2'],
    ['neither', RECEIPT_URL, '', ''],
    ['escaped values', `${RECEIPT_URL}?a=%C3%A4+b`, 'c=%2B1', '?a=ä b.c+1'],
  ])('covers %s', (_, url, body, text) => {
    const headers = {
      'x-plivo-signature-v3': signature(`${RECEIPT_URL}${text}.${NONCE}`, account.secretConfig.authToken),
      'x-plivo-signature-v3-nonce': NONCE,
    };
    expect(judge(call({ url, body: Buffer.from(body), headers }))).toEqual({ kind: 'genuine' });
  });
});
