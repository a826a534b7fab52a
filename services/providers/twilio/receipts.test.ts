import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import definitions from './provider.ts';
import { statusCallback, twilioReceipts } from './receipts.ts';
import { signTwilioCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const SID = `SM${'0123456789abcdef'.repeat(2)}`;
const OTHER_SID = `MM${'fedcba9876543210'.repeat(2)}`;
const account = {
  publicConfig: { accountSid: `AC${'0123456789abcdef'.repeat(2)}`, from: '+15005550006' },
  secretConfig: { authToken: 'canary-auth-token-1' },
};

const callback = (status: string, over: Record<string, string> = {}): UnsignedCall => ({
  query: `?mid=${REFERENCE}`,
  headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
  body: new URLSearchParams({
    AccountSid: account.publicConfig.accountSid,
    ApiVersion: '2010-04-01',
    From: '+15005550006',
    MessageSid: SID,
    MessageStatus: status,
    SmsSid: SID,
    SmsStatus: status,
    To: '+15551230001',
    ...over,
  }).toString(),
});

const about = { reference: REFERENCE, providerMessageId: SID };

describe.each(definitions.map((provider) => [provider.id, provider] as const))('%s', (_, provider) => {
  receiptSuite({
    provider,
    account,
    otherAccount: { ...account, secretConfig: { authToken: 'canary-auth-token-2' } },
    reference: REFERENCE,
    sign: signTwilioCall,
    covers: { body: true, url: true, timestamp: false },
    calls: [
      { name: 'queued', call: callback('queued'), receipts: [{ ...about, providerStatus: 'queued' }] },
      { name: 'sent', call: callback('sent'), receipts: [{ ...about, state: 'sent' }] },
      { name: 'delivered', call: callback('delivered'), receipts: [{ ...about, state: 'delivered' }] },
      {
        name: 'read',
        call: callback('read'),
        receipts: [{ ...about, state: 'delivered', engagement: 'read' }],
      },
      {
        name: 'undelivered with a known code',
        call: callback('undelivered', { ErrorCode: '30005' }),
        receipts: [
          {
            ...about,
            state: 'undelivered',
            failure: { class: 'invalid_recipient', code: 'unreachable_number', providerCode: '30005' },
          },
        ],
      },
      {
        name: 'failed with an unknown code',
        call: callback('failed', { ErrorCode: '39999' }),
        receipts: [
          {
            ...about,
            state: 'undelivered',
            failure: { class: 'unknown', code: 'undelivered', providerCode: '39999' },
          },
        ],
      },
      {
        name: 'failed outside the WhatsApp window',
        call: callback('failed', { ErrorCode: '63016', MessageSid: OTHER_SID }),
        receipts: [
          {
            ...about,
            providerMessageId: OTHER_SID,
            state: 'undelivered',
            failure: { class: 'content_rejected', code: 'outside_window', providerCode: '63016' },
          },
        ],
      },
      {
        name: 'failed because its validity period ended',
        call: callback('failed', { ErrorCode: '30036', MessageSid: `SM${'1'.repeat(32)}` }),
        receipts: [
          {
            ...about,
            providerMessageId: `SM${'1'.repeat(32)}`,
            state: 'undelivered',
            failure: { class: 'recipient_unavailable', code: 'message_expired', providerCode: '30036' },
          },
        ],
      },
      {
        name: 'failed because the recipient blocked the sender',
        call: callback('failed', { ErrorCode: '63014', MessageSid: `SM${'2'.repeat(32)}` }),
        receipts: [
          {
            ...about,
            providerMessageId: `SM${'2'.repeat(32)}`,
            state: 'undelivered',
            failure: { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '63014' },
          },
        ],
      },
      {
        name: 'an inbound message',
        call: callback('received'),
        receipts: [{ ...about, providerStatus: 'received' }],
      },
    ],
  });
});

describe('a Twilio signature', () => {
  const judge = (call: ReceiptCall) =>
    twilioReceipts.verify?.(
      call,
      { config: {}, secrets: { authToken: account.secretConfig.authToken } },
      undefined as never,
    );
  const call = (over: Partial<ReceiptCall>): ReceiptCall => ({
    method: 'POST',
    url: RECEIPT_URL,
    headers: {},
    body: new Uint8Array(),
    receivedAt: 0,
    ...over,
  });

  test.each([
    ['an apostrophe in the query', `${RECEIPT_URL}?mid=o'neil`],
    ['characters that a parser would change', `${RECEIPT_URL}?mid=%7e~%20+a|b`],
    ['a non-default port', 'https://hooks.example:8443/v1/receipts/a/b?mid=1'],
  ])('is valid for %s', (_, url) => {
    expect(judge(signTwilioCall(call({ url }), account))).toEqual({ kind: 'genuine' });
  });

  test('is valid for the URL with and without the default port', () => {
    const plain = 'https://hooks.example/v1/receipts/a/b?mid=1';
    const ported = 'https://hooks.example:443/v1/receipts/a/b?mid=1';
    const asked = (signedUrl: string, url: string) =>
      judge({ ...signTwilioCall(call({ url: signedUrl }), account), url });
    expect([asked(plain, ported), asked(ported, plain)]).toEqual([{ kind: 'genuine' }, { kind: 'genuine' }]);
    expect(asked('https://hooks.example:8443/v1/receipts/a/b?mid=1', plain)).toMatchObject({
      kind: 'forged',
    });
  });

  test('covers each distinct value of a repeated parameter once, in order', () => {
    const signature = createHmac('sha1', account.secretConfig.authToken)
      .update(`${RECEIPT_URL}Ba1a2Cx`)
      .digest('base64');
    const body = Buffer.from('C=x&Ba=2&Ba=1&Ba=2');
    expect(judge(call({ body, headers: { 'x-twilio-signature': signature } }))).toMatchObject({
      kind: 'forged',
    });
    const right = createHmac('sha1', account.secretConfig.authToken)
      .update(`${RECEIPT_URL}Ba1Ba2Cx`)
      .digest('base64');
    expect(judge(call({ body, headers: { 'x-twilio-signature': right } }))).toEqual({ kind: 'genuine' });
  });

  test('covers the callback URL with the message id', () => {
    expect(statusCallback(RECEIPT_URL, REFERENCE)).toBe(`${RECEIPT_URL}?mid=${REFERENCE}`);
  });
});
