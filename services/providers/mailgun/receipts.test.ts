import { createHash, createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { SentAccount } from '#test/suites/provider-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import mailgun from './provider.ts';
import { mailgunReceipts, withoutBrackets } from './receipts.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const ID = '20261122120000.1.DF5966851B4BAA99@mg.acme.example';
const AT = 1_795_348_800.153;
const accountOf = (webhookSigningKey: string) => ({
  publicConfig: { domain: 'mg.acme.example' },
  secretConfig: { apiKey: 'canary-key', webhookSigningKey },
});
const account = accountOf('canary-signing-key-1');

const call = (event: string, over: object = {}): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    'event-data': {
      id: 'hTWCTD81RtiDN-1',
      event,
      timestamp: AT,
      'log-level': 'info',
      recipient: 'ada@example.com',
      tags: [],
      'user-variables': { despatch_message_id: REFERENCE },
      message: { headers: { 'message-id': ID, to: 'ada@example.com', subject: 'Grüße ✓' }, size: 809 },
      ...over,
    },
  }),
});

/** https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks */
function sign(unsigned: ReceiptCall, { secretConfig }: SentAccount, at: number): ReceiptCall {
  const token = createHash('sha256').update(unsigned.body).digest('hex').slice(0, 50);
  const timestamp = String(Math.floor(at / 1_000));
  const signature = createHmac('sha256', String(secretConfig['webhookSigningKey']))
    .update(timestamp + token)
    .digest('hex');
  const body = JSON.parse(Buffer.from(unsigned.body).toString()) as object;
  return {
    ...unsigned,
    body: Buffer.from(JSON.stringify({ signature: { timestamp, token, signature }, ...body })),
  };
}

const about = { reference: REFERENCE, providerMessageId: ID, at: Math.round(AT * 1_000) };
const failed = (name: string, over: object, failure: object) => ({
  name,
  call: call('failed', { severity: 'permanent', ...over }),
  receipts: [{ ...about, state: 'undelivered', providerStatus: 'failed:permanent', failure } as object],
});
const engaged = (event: 'opened' | 'clicked' | 'complained' | 'unsubscribed') => ({
  name: event,
  call: call(event),
  receipts: [{ ...about, engagement: event, providerStatus: event }],
});

receiptSuite({
  provider: mailgun,
  account,
  otherAccount: accountOf('canary-signing-key-2'),
  reference: REFERENCE,
  sign,
  // The signature covers only its own token and timestamp.
  covers: { body: false, url: false, timestamp: false },
  calls: [
    { name: 'accepted', call: call('accepted'), receipts: [{ ...about, state: 'sent' }] },
    {
      name: 'delivered',
      call: call('delivered', { 'delivery-status': { code: 250, message: 'OK' } }),
      receipts: [{ ...about, state: 'delivered' }],
    },
    {
      name: 'a temporary failure',
      call: call('failed', { severity: 'temporary', reason: 'greylisted', 'delivery-status': { code: 450 } }),
      receipts: [{ ...about, providerStatus: 'failed:temporary' }],
    },
    failed(
      'a bounce of an unknown mailbox',
      {
        reason: 'bounce',
        'delivery-status': { code: 550, message: '5.1.1 ada@example.com does not exist', description: '' },
      },
      {
        class: 'invalid_recipient',
        code: 'unknown_recipient',
        providerCode: '550',
        providerMessage: '5.1.1 [redacted] does not exist',
      },
    ),
    failed(
      'a non-ASCII mailbox whose server takes none',
      {
        recipient: 'dån@example.com',
        reason: 'bounce',
        'delivery-status': {
          code: 553,
          'enhanced-code': '5.1.3',
          'bounce-type': 'hard',
          message: 'Bad syntax',
        },
      },
      { class: 'invalid_recipient', code: 'unsupported_address', providerCode: '553' },
    ),
    failed(
      'a bounce with an enhanced-code field',
      { reason: 'bounce', 'delivery-status': { code: 552, 'enhanced-code': '5.2.2', message: 'full' } },
      { class: 'recipient_unavailable', code: 'mailbox_full', providerCode: '552' },
    ),
    failed(
      'a soft bounce',
      { reason: 'bounce', 'delivery-status': { code: 550, 'bounce-type': 'soft' } },
      { class: 'recipient_unavailable', code: 'bounced' },
    ),
    failed(
      'an address without a server',
      { reason: 'generic', 'delivery-status': { code: 498, description: 'No MX for example.com' } },
      { class: 'recipient_unavailable', code: 'bounced', providerMessage: 'No MX for example.com' },
    ),
    failed(
      'an address that bounced before',
      { reason: 'suppress-bounce', 'delivery-status': { code: 605 } },
      { class: 'invalid_recipient', code: 'bounced_before', providerCode: '605' },
    ),
    failed(
      'an opt-out',
      { reason: 'suppress-unsubscribe', 'delivery-status': { code: 606 } },
      { class: 'recipient_unavailable', code: 'recipient_opted_out' },
    ),
    failed(
      'an earlier complaint, by its code alone',
      { 'delivery-status': { code: 607 } },
      { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '607' },
    ),
    failed(
      'a mail whose retries expired',
      { reason: 'old', 'delivery-status': { code: 602, message: 'Too old' } },
      { class: 'recipient_unavailable', code: 'delivery_timeout' },
    ),
    failed(
      'a reason that is a JavaScript property name',
      { reason: 'constructor' },
      {
        class: 'recipient_unavailable',
        code: 'bounced',
      },
    ),
    {
      name: 'rejected',
      call: call('rejected', { reject: { reason: 'Sandbox subdomains are for tests', description: '' } }),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: {
            class: 'unknown',
            code: 'rejected',
            providerMessage: 'Sandbox subdomains are for tests',
          },
        },
      ],
    },
    engaged('opened'),
    engaged('clicked'),
    engaged('complained'),
    engaged('unsubscribed'),
    {
      name: 'an id in brackets, without variables',
      call: call('delivered', {
        'user-variables': [],
        message: { headers: { 'message-id': `<${ID}>` } },
      }),
      receipts: [{ providerMessageId: ID, state: 'delivered' }],
    },
    {
      name: 'an event that is not about a mail',
      call: call('list_member_uploaded', { message: undefined, 'user-variables': undefined }),
      receipts: [],
    },
  ],
});

describe('a Mailgun signature', () => {
  const arrived: ReceiptCall = {
    method: 'POST',
    url: RECEIPT_URL,
    headers: {},
    body: Buffer.from(call('delivered').body ?? ''),
    receivedAt: 0,
  };
  const judge = (given: ReceiptCall, webhookSigningKey?: string) =>
    mailgunReceipts.verify?.(
      given,
      { config: {}, secrets: { apiKey: 'x', webhookSigningKey } },
      undefined as never,
    );
  const { webhookSigningKey } = account.secretConfig;
  const changed = (over: object): ReceiptCall => {
    const body = JSON.parse(Buffer.from(sign(arrived, account, 0).body).toString()) as { signature: object };
    return {
      ...arrived,
      body: Buffer.from(JSON.stringify({ ...body, signature: { ...body.signature, ...over } })),
    };
  };

  test('is valid with a timestamp as a number or as text', () => {
    expect(judge(changed({}), webhookSigningKey)).toEqual({ kind: 'genuine' });
    expect(judge(changed({ timestamp: 0 }), webhookSigningKey)).toEqual({ kind: 'genuine' });
  });

  test.each([
    ['another token', { token: 'x'.repeat(50) }, 'signature_mismatch'],
    ['another timestamp', { timestamp: '1' }, 'signature_mismatch'],
    ['another signature', { signature: '0'.repeat(64) }, 'signature_mismatch'],
    ['a truncated signature', { signature: '0' }, 'signature_mismatch'],
    ['no signature', { signature: undefined }, 'signature_missing'],
    ['an empty token', { token: '' }, 'signature_missing'],
    ['lists instead of strings', { token: ['x'], signature: ['y'] }, 'signature_missing'],
  ])('with %s is forged', (_, over, reason) => {
    expect(judge(changed(over), webhookSigningKey)).toEqual({ kind: 'forged', reason });
  });

  test('of the parent account is valid too', () => {
    const { signature } = JSON.parse(Buffer.from(sign(arrived, account, 0).body).toString()).signature as {
      signature: string;
    };
    const signedTwice = changed({ signature: '0'.repeat(64), 'parent-signature': signature });
    expect(judge(signedTwice, webhookSigningKey)).toEqual({ kind: 'genuine' });
  });

  test('is valid for the hours in which Mailgun retries, and no longer', () => {
    const judged = (hours: number) =>
      judge({ ...changed({}), receivedAt: hours * 3_600_000 }, webhookSigningKey);
    expect([judged(-1), judged(8)]).toEqual([{ kind: 'genuine' }, { kind: 'genuine' }]);
    expect([judged(10), judged(-10)]).toEqual(
      Array.from({ length: 2 }, () => ({ kind: 'forged', reason: 'timestamp_out_of_tolerance' })),
    );
  });

  test('that is replayed gives the same event id, whatever event it accompanies', () => {
    const eventIds = [call('delivered'), call('failed')].map(({ body = '' }) => {
      const { signature } = JSON.parse(Buffer.from(sign(arrived, account, 0).body).toString()) as {
        signature: object;
      };
      const replayed = JSON.stringify({ ...(JSON.parse(body) as object), signature });
      const parsed = mailgunReceipts.parse({ ...arrived, body: Buffer.from(replayed) });
      return parsed.kind === 'receipts' ? parsed.receipts[0]?.eventId : undefined;
    });
    expect(eventIds[0]).toMatch(/^[0-9a-f]{50}$/);
    expect(eventIds[1]).toBe(eventIds[0]);
  });

  test('is not required if the account has no signing key', () => {
    expect(judge(arrived)).toEqual({ kind: 'genuine', isUnsigned: true });
  });
});

test.each([
  [`<${ID}>`, ID],
  [ID, ID],
])('brackets are removed from %s', (given, kept) => {
  expect(withoutBrackets(given)).toBe(kept);
});
