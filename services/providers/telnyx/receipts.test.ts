import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { SentAccount } from '#test/suites/provider-conformance.ts';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import telnyx from './provider.ts';
import { telnyxReceipts } from './receipts.ts';
import { signTelnyxCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const MESSAGE = '40385f64-5717-4562-b3fc-2c963f66afa6';
const OCCURRED = '2026-11-22T11:59:30.148+00:00';

/** The account stores the public key of a pair; Telnyx keeps the private key. */
const privateKeys = new Map<string, KeyObject>();
const keyedAccount = (): SentAccount => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64');
  privateKeys.set(key, privateKey);
  return { publicConfig: { from: '+15005550006', publicKey: key }, secretConfig: { apiKey: 'canary-key' } };
};
const account = keyedAccount();

function sign(call: ReceiptCall, { publicConfig }: SentAccount, at: number): ReceiptCall {
  return signTelnyxCall(call, privateKeys.get(String(publicConfig['publicKey'])) as KeyObject, at);
}

const event = (id: string, type: string, status: string, errors: readonly object[] = []): UnsignedCall => ({
  query: `?mid=${REFERENCE}`,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    data: {
      event_type: type,
      id,
      occurred_at: OCCURRED,
      payload: {
        completed_at: null,
        cost: { amount: '0.0051', currency: 'USD' },
        direction: type === 'message.received' ? 'inbound' : 'outbound',
        errors,
        from: { carrier: 'Telnyx', line_type: 'Wireless', phone_number: '+15005550006' },
        id: MESSAGE,
        parts: 1,
        record_type: 'message',
        to: [{ carrier: 'T-Mobile', line_type: 'Wireless', phone_number: '+15551230001', status }],
        type: 'SMS',
      },
      record_type: 'event',
    },
    meta: { attempt: 1, delivered_to: `${RECEIPT_URL}?mid=${REFERENCE}` },
  }),
});

const about = { reference: REFERENCE, providerMessageId: MESSAGE, at: Date.parse(OCCURRED) };

receiptSuite({
  provider: telnyx,
  account,
  otherAccount: keyedAccount(),
  reference: REFERENCE,
  sign,
  covers: { body: true, url: false, timestamp: true },
  calls: [
    {
      name: 'sent',
      call: event('e1', 'message.sent', 'sent'),
      receipts: [{ ...about, eventId: 'e1', state: 'sent', providerStatus: 'sent' }],
    },
    {
      name: 'sending',
      call: event('e2', 'message.sent', 'sending'),
      receipts: [{ ...about, eventId: 'e2', providerStatus: 'sending' }],
    },
    {
      name: 'delivered',
      call: event('e3', 'message.finalized', 'delivered'),
      receipts: [{ ...about, eventId: 'e3', state: 'delivered' }],
    },
    {
      name: 'an unconfirmed delivery',
      call: event('e4', 'message.finalized', 'delivery_unconfirmed'),
      receipts: [{ ...about, state: 'sent', providerStatus: 'delivery_unconfirmed' }],
    },
    {
      name: 'a failed delivery with a known code',
      call: event('e5', 'message.finalized', 'delivery_failed', [{ code: '40001', title: 'Not routable' }]),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: { class: 'invalid_recipient', code: 'unreachable_number', providerCode: '40001' },
        },
      ],
    },
    {
      name: 'a failed sending with an unknown code',
      call: event('e6', 'message.finalized', 'sending_failed', [{ code: 49999 }]),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: { class: 'unknown', code: 'undelivered', providerCode: '49999' },
        },
      ],
    },
    {
      name: 'expired without a code',
      call: event('e7', 'message.finalized', 'expired'),
      receipts: [{ ...about, state: 'undelivered', failure: { class: 'unknown', code: 'undelivered' } }],
    },
    {
      name: 'an inbound message',
      call: event('e8', 'message.received', 'webhook_delivered'),
      receipts: [],
    },
    {
      name: 'an event of another kind',
      call: { body: '{"data":{"event_type":"10dlc.campaign.update","id":"e9","payload":{}}}' },
      receipts: [],
    },
  ],
});

describe('a Telnyx report', () => {
  const NOW = 1_700_000_000_000;
  const judge = (call: ReceiptCall) =>
    telnyxReceipts.verify?.(
      call,
      { config: { publicKey: String(account.publicConfig['publicKey']) }, secrets: {} },
      undefined as never,
    );
  const call = (body = '{}'): ReceiptCall => ({
    method: 'POST',
    url: RECEIPT_URL,
    headers: {},
    body: Buffer.from(body),
    receivedAt: NOW,
  });

  test('is verified against its arrival time', () => {
    expect(judge(sign(call(), account, NOW - 301_000))).toEqual({
      kind: 'forged',
      reason: 'timestamp_out_of_tolerance',
    });
    expect(judge(sign(call(), account, NOW - 299_000))).toEqual({ kind: 'genuine' });
  });

  test('is verified over its exact bytes', () => {
    expect(judge(sign(call('{ "a" : "\\u00e4 ä" }\n'), account, NOW))).toEqual({ kind: 'genuine' });
  });

  test('without either signature header is forged as signature_missing', () => {
    for (const name of ['telnyx-signature-ed25519', 'telnyx-timestamp']) {
      const { headers, ...rest } = sign(call(), account, NOW);
      const kept = Object.fromEntries(Object.entries(headers).filter(([one]) => one !== name));
      expect(judge({ ...rest, headers: kept })).toEqual({ kind: 'forged', reason: 'signature_missing' });
    }
  });

  test('takes the message id from the payload, not from the event', () => {
    const parsed = telnyxReceipts.parse(call(String(event('event-id', 'message.sent', 'sent').body)));
    expect(parsed).toMatchObject({ receipts: [{ providerMessageId: MESSAGE, eventId: 'event-id' }] });
  });
});
