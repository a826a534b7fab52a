import { describe, expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { SentAccount } from '#test/suites/provider-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import definitions from './provider.ts';
import { gatewayReceipts } from './receipts.ts';
import { signGatewayCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const secretOf = (text: string) => `whsec_${Buffer.from(text).toString('base64')}`;
const accountOf = (text: string) => ({
  publicConfig: { url: 'https://gateway.acme.example/' },
  secretConfig: { signingSecret: secretOf(text) },
});
const account = accountOf('canary-secret-of-32-bytes-length');

const sign = (unsigned: ReceiptCall, of: SentAccount, at: number) =>
  signGatewayCall(unsigned, of, at, 'evt_1');
const report = (said: unknown): UnsignedCall => ({ body: JSON.stringify(said) });
const about = { messageId: REFERENCE };

const [sms] = definitions;

receiptSuite({
  provider: sms,
  account,
  otherAccount: accountOf('another-secret-of-32-bytes-long!'),
  reference: REFERENCE,
  sign,
  covers: { body: true, url: false, timestamp: true },
  calls: [
    {
      name: 'sent',
      call: report({ ...about, id: 'r1', status: 'sent' }),
      receipts: [{ reference: REFERENCE, eventId: 'r1', state: 'sent', providerStatus: 'sent' }],
    },
    {
      name: 'delivered, in snake case',
      call: report({ message_id: REFERENCE, status: 'delivered' }),
      receipts: [{ reference: REFERENCE, state: 'delivered' }],
    },
    {
      name: 'delivered, with a time',
      call: report({ ...about, status: 'delivered', at: '2026-11-22T13:00:00.5+01:00' }),
      receipts: [{ reference: REFERENCE, state: 'delivered', at: Date.UTC(2026, 10, 22, 12, 0, 0, 500) }],
    },
    {
      name: 'undelivered with a failure',
      call: report({
        ...about,
        status: 'undelivered',
        failure: {
          class: 'invalid_recipient',
          code: 'unknown_mailbox',
          message: 'No such user ada@example.com',
        },
      }),
      receipts: [
        {
          state: 'undelivered',
          failure: {
            class: 'invalid_recipient',
            code: 'unknown_mailbox',
            providerCode: 'unknown_mailbox',
            providerMessage: 'No such user [redacted]',
          },
        },
      ],
    },
    {
      name: 'undelivered temporarily',
      call: report({
        ...about,
        status: 'undelivered',
        temporary: true,
        failure: { class: 'recipient_unavailable', code: 'Mailbox full' },
      }),
      receipts: [
        {
          state: 'undelivered',
          isTemporary: true,
          failure: {
            class: 'recipient_unavailable',
            code: 'recipient_unavailable',
            providerCode: 'Mailbox full',
          },
        },
      ],
    },
    {
      name: 'undelivered without details',
      call: report({ ...about, status: 'undelivered', failure: { class: 'bad luck' } }),
      receipts: [{ state: 'undelivered', failure: { class: 'unknown', code: 'undelivered' } }],
    },
    {
      name: 'engagement alone',
      call: report({ ...about, engagement: 'opened' }),
      receipts: [{ reference: REFERENCE, engagement: 'opened', providerStatus: 'opened' }],
    },
    {
      name: 'several, one of them unreadable',
      call: report([
        { ...about, id: 'r2', status: 'delivered', engagement: 'read' },
        { messageId: 'not-ours', status: 'delivered' },
        { ...about, status: 'lost' },
        { ...about, id: 'r3', engagement: 'clicked', extra: true },
        { ...about, id: 'r4', engagement: 'complained' },
        { ...about, id: 'r5', engagement: 'unsubscribed' },
      ]),
      receipts: [
        { eventId: 'r2', state: 'delivered', engagement: 'read' },
        { eventId: 'r3', engagement: 'clicked' },
        { eventId: 'r4', engagement: 'complained' },
        { eventId: 'r5', engagement: 'unsubscribed' },
      ],
    },
  ],
});

describe('a gateway receipt', () => {
  const call = (said: unknown, headers: Record<string, string> = {}): ReceiptCall => ({
    method: 'POST',
    url: RECEIPT_URL,
    headers,
    body: Buffer.from(JSON.stringify(said)),
    receivedAt: Date.UTC(2026, 10, 22),
  });
  const judge = (given: ReceiptCall) =>
    gatewayReceipts.verify?.(
      given,
      { config: {}, secrets: { signingSecret: account.secretConfig.signingSecret } },
      undefined as never,
    );

  test('is valid with one right signature among several, as during a secret rotation', () => {
    const genuine = sign(call({}), account, Date.UTC(2026, 10, 22));
    const { 'webhook-signature': right = '' } = genuine.headers;
    const signedWith = (value: string) =>
      judge({ ...genuine, headers: { ...genuine.headers, 'webhook-signature': value } });
    expect(signedWith(`v1,AAAA v1a,xyz ${right}`)).toEqual({ kind: 'genuine' });
    expect(signedWith('v1,AAAA v1a,xyz')).toEqual({ kind: 'forged', reason: 'signature_mismatch' });
    expect(signedWith(right.replace('v1,', 'v2,'))).toMatchObject({ kind: 'forged' });
    expect(signedWith(`${'x '.repeat(1_000)}${right}`)).toMatchObject({ kind: 'forged' });
  });

  test('has a signature over its id and timestamp', () => {
    const genuine = sign(call({}), account, Date.UTC(2026, 10, 22));
    for (const [name, value] of [
      ['webhook-id', 'evt_2'],
      ['webhook-timestamp', String(Date.UTC(2026, 10, 22) / 1_000 + 1)],
    ] as const) {
      expect(judge({ ...genuine, headers: { ...genuine.headers, [name]: value } })).toMatchObject({
        kind: 'forged',
      });
    }
    expect(judge(sign(call({}), account, Date.UTC(2026, 10, 21)))).toEqual({
      kind: 'forged',
      reason: 'timestamp_out_of_tolerance',
    });
  });

  test.each([
    ['without a message id', { status: 'delivered' }],
    ['with a providerMessageId only', { providerMessageId: 'gw-1', status: 'delivered' }],
    ['without a status', about],
    ['with an invalid message id', { messageId: 'x', status: 'delivered' }],
    ['with an unknown status', { ...about, status: 'lost' }],
    ['in a list that is too long', Array.from({ length: 1_001 }, () => ({ ...about, status: 'sent' }))],
  ])('%s is unreadable', (_, said) => {
    expect(gatewayReceipts.parse(call(said))).toEqual({ kind: 'unreadable' });
  });

  test('of a delivery has no failure, and an invalid time is left out', () => {
    const said = {
      ...about,
      status: 'delivered',
      failure: { class: 'unknown' },
      temporary: true,
      at: 'yesterday',
    };
    expect(gatewayReceipts.parse(call(said))).toEqual({
      kind: 'receipts',
      receipts: [{ reference: REFERENCE, state: 'delivered', providerStatus: 'delivered' }],
    });
  });

  test('may be an empty list', () => {
    expect(gatewayReceipts.parse(call([]))).toEqual({ kind: 'receipts', receipts: [] });
  });
});
