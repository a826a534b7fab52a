import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { causeOfReport } from '#core/domain/recipient/suppression-cause.ts';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { SentAccount } from '#test/suites/provider-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import sendgrid from './provider.ts';
import { publicKeyOf, sendgridReceipts } from './receipts.ts';
import { signSendgridCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const ID = 'qNwBLgPQQjW6DJvKQwSAbw';
const AT = 1_795_348_800;

const pairs = new Map(
  [1, 2].map(() => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    return [publicKey.export({ type: 'spki', format: 'der' }).toString('base64'), privateKey] as const;
  }),
);
const [key, otherKey] = [...pairs.keys()];
const secretConfig = { apiKey: 'SG.canary-key-1.canary-key-2' };

let sequence = 0;
const event = (name: string, over: object = {}) => ({
  email: 'ada@example.com',
  timestamp: AT,
  'smtp-id': `<${ID}@geopod-ismtpd-1>`,
  event: name,
  sg_event_id: `ZXZlbnQ-${(sequence += 1)}`,
  sg_message_id: `${ID}.recvd-5f54b5d587-pczjm-1-67BADEEA-6.0`,
  despatch_message_id: REFERENCE,
  ...over,
});
const call = (...events: object[]): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  // SendGrid ends its bodies with CRLF, and the signature covers it.
  body: `${JSON.stringify(events)}\r\n`,
});

function sign(unsigned: ReceiptCall, { publicConfig }: SentAccount, at: number): ReceiptCall {
  const privateKey = pairs.get(String(publicConfig['webhookPublicKey']));
  if (privateKey === undefined) throw new Error('The account has none of the keys');
  return signSendgridCall(unsigned, privateKey, at);
}

const about = { reference: REFERENCE, providerMessageId: ID, at: AT * 1_000 };
const undelivered = (name: string, given: object, failure: object) => ({
  name,
  call: call(event('bounce', given)),
  receipts: [{ ...about, state: 'undelivered', failure } as object],
});
const dropped = (reason: string, failure: object) => ({
  name: `dropped for ${reason}`,
  call: call(event('dropped', { reason })),
  receipts: [{ ...about, state: 'undelivered', failure: { ...failure, providerMessage: reason } } as object],
});
const engaged = (name: string, engagement: 'opened' | 'clicked' | 'complained' | 'unsubscribed') => ({
  name,
  call: call(event(name)),
  receipts: [{ ...about, engagement, providerStatus: name }],
});

receiptSuite({
  provider: sendgrid,
  account: { publicConfig: { webhookPublicKey: key }, secretConfig },
  otherAccount: { publicConfig: { webhookPublicKey: otherKey }, secretConfig },
  reference: REFERENCE,
  sign,
  covers: { body: true, url: false, timestamp: false },
  calls: [
    { name: 'processed', call: call(event('processed')), receipts: [{ ...about, state: 'sent' }] },
    {
      name: 'deferred',
      call: call(event('deferred', { response: '450 4.2.1 try again', attempt: '5' })),
      receipts: [{ ...about, providerStatus: 'deferred' }],
    },
    {
      name: 'delivered',
      call: call(event('delivered', { response: '250 OK' })),
      receipts: [{ ...about, state: 'delivered' }],
    },
    undelivered(
      'a hard bounce of an unknown mailbox',
      { type: 'bounce', status: '5.1.1', reason: '550 5.1.1 <ada@example.com> user unknown' },
      {
        class: 'invalid_recipient',
        code: 'unknown_recipient',
        providerCode: '5.1.1',
        providerMessage: '550 5.1.1 <[redacted]> user unknown',
      },
    ),
    undelivered(
      'a bounce classified by its text',
      { type: 'bounce', reason: '552 5.2.2 The mailbox is over quota' },
      { class: 'recipient_unavailable', code: 'mailbox_full' },
    ),
    undelivered('a bounce without a reason', {}, { class: 'invalid_recipient', code: 'bounced' }),
    undelivered(
      'a block',
      { type: 'blocked', status: '5.0.0', reason: 'refused' },
      { class: 'recipient_unavailable', code: 'bounced' },
    ),
    undelivered(
      'a mail that could not be delivered for 72 hours',
      { type: 'expired', reason: 'Unable to deliver' },
      { class: 'recipient_unavailable', code: 'delivery_timeout' },
    ),
    undelivered(
      'a bounce of a type that is not known',
      { type: 'other', reason: 'refused' },
      { class: 'recipient_unavailable', code: 'bounced' },
    ),
    undelivered(
      "a block because of the sender's reputation",
      { type: 'blocked', status: '5.7.1', bounce_classification: 'Reputation' },
      { class: 'sender_rejected', code: 'poor_reputation', providerCode: '5.7.1' },
    ),
    ...['Frequency or Volume Too High', 'Frequency/Volume'].map((classification) =>
      undelivered(
        `a block because of the volume, named ${classification}`,
        { type: 'blocked', status: '4.7.0', bounce_classification: classification },
        { class: 'recipient_unavailable', code: 'too_many_messages' },
      ),
    ),
    ...['Mailbox Unavailable', 'Technical', 'Technical Failure'].map((classification) =>
      undelivered(
        `a bounce that does not call the address invalid, but ${classification}`,
        { type: 'bounce', status: '5.0.0', reason: 'refused', bounce_classification: classification },
        { class: 'recipient_unavailable', code: 'bounced' },
      ),
    ),
    undelivered(
      'a full mailbox that SendGrid calls unavailable',
      { type: 'bounce', status: '5.2.2', bounce_classification: 'Mailbox Unavailable' },
      { class: 'recipient_unavailable', code: 'mailbox_full', providerCode: '5.2.2' },
    ),
    undelivered(
      'a bounce that SendGrid could not classify',
      { type: 'bounce', status: '5.0.0', bounce_classification: 'Unclassified' },
      { class: 'invalid_recipient', code: 'bounced' },
    ),
    undelivered(
      'a classification that is a JavaScript property name',
      { type: 'blocked', bounce_classification: 'constructor' },
      { class: 'recipient_unavailable', code: 'bounced' },
    ),
    dropped('Bounced Address', { class: 'invalid_recipient', code: 'bounced_before' }),
    dropped('Unsubscribed Address', { class: 'recipient_unavailable', code: 'recipient_opted_out' }),
    dropped('Spam Reporting Address', { class: 'recipient_unavailable', code: 'recipient_opted_out' }),
    dropped('Invalid', { class: 'invalid_recipient', code: 'invalid_address' }),
    dropped('Invalid SMTPAPI header', { class: 'content_rejected', code: 'invalid_headers' }),
    dropped('Spam Content (if Spam Checker app enabled)', {
      class: 'content_rejected',
      code: 'rejected_by_policy',
    }),
    dropped('Recipient List over Package Quota', { class: 'auth_or_config', code: 'insufficient_credit' }),
    dropped('Something new', { class: 'unknown', code: 'dropped' }),
    engaged('open', 'opened'),
    engaged('click', 'clicked'),
    engaged('spamreport', 'complained'),
    engaged('unsubscribe', 'unsubscribed'),
    engaged('group_unsubscribe', 'unsubscribed'),
    {
      name: 'group_resubscribe',
      call: call(event('group_resubscribe')),
      receipts: [{ ...about, providerStatus: 'group_resubscribe' }],
    },
    {
      name: 'a late bounce without an id',
      call: call(event('bounce', { type: 'bounce', sg_message_id: undefined })),
      receipts: [{ reference: REFERENCE, state: 'undelivered' }],
    },
    {
      name: 'many events at once, some of other messages',
      call: call(
        event('delivered'),
        event('open', { despatch_message_id: undefined }),
        { event: 'account_status_change', sg_event_id: 'x', timestamp: AT, type: 'compliance_suspend' },
        { no: 'event' },
      ),
      receipts: [
        { ...about, state: 'delivered' },
        { providerMessageId: ID, engagement: 'opened' },
      ],
    },
  ],
});

describe('SendGrid receipts', () => {
  const judge = (given: Partial<ReceiptCall>, webhookPublicKey: string | undefined) =>
    sendgridReceipts.verify?.(
      { method: 'POST', url: RECEIPT_URL, headers: {}, body: new Uint8Array(), receivedAt: 0, ...given },
      { config: { webhookPublicKey }, secrets: {} },
      undefined as never,
    );

  test("verify the example of SendGrid's own library", () => {
    // https://github.com/sendgrid/sendgrid-nodejs, packages/eventwebhook
    const theirs =
      'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA==';
    const given = (signature: string) => ({
      headers: {
        'x-twilio-email-event-webhook-signature': signature,
        'x-twilio-email-event-webhook-timestamp': '1588788367',
      },
      body: Buffer.from('{"category":"example_payload","event":"test_event","message_id":"message_id"}'),
      receivedAt: 1_588_788_367_000,
    });
    const signature =
      'MEUCIQCtIHJeH93Y+qpYeWrySphQgpNGNr/U+UyUlBkU6n7RAwIgJTz2C+8a8xonZGi6BpSzoQsbVRamr2nlxFDWYNH2j/0=';
    expect(judge(given(signature), theirs)).toEqual({ kind: 'genuine' });
    expect(judge(given(signature.replace('H2j', 'H3j')), theirs)).toMatchObject({ kind: 'forged' });
    expect(judge(given(signature), key)).toMatchObject({ kind: 'forged' });
  });

  test('are valid for the day in which SendGrid retries, and no longer', () => {
    const call = {
      method: 'POST',
      url: RECEIPT_URL,
      headers: {},
      body: Buffer.from('[]'),
      receivedAt: 0,
    } as const;
    const signed = sign(call, { publicConfig: { webhookPublicKey: key }, secretConfig }, 0);
    const judged = (hours: number) => judge({ ...signed, receivedAt: hours * 3_600_000 }, key);
    expect([judged(-1), judged(24)]).toEqual([{ kind: 'genuine' }, { kind: 'genuine' }]);
    expect([judged(26), judged(-26)]).toEqual(
      Array.from({ length: 2 }, () => ({ kind: 'forged', reason: 'timestamp_out_of_tolerance' })),
    );
  });

  test('may be unsigned if the account has no key', () => {
    expect(judge({}, undefined)).toEqual({ kind: 'genuine', isUnsigned: true });
  });

  test('of a call with 12,000 events (over 3 MiB) are all parsed', () => {
    const events = Array.from({ length: 12_000 }, () => event('delivered'));
    const body = Buffer.from(JSON.stringify(events));
    expect(body.length).toBeGreaterThan(3 * 1024 * 1024);
    const parsed = sendgridReceipts.parse({
      method: 'POST',
      url: RECEIPT_URL,
      headers: {},
      body,
      receivedAt: 0,
    });
    expect(parsed.kind === 'receipts' && parsed.receipts.length).toBe(events.length);
  });

  test.each([
    ['an invalid key', 'bm8ga2V5'],
    [
      'a key of another curve',
      generateKeyPairSync('ec', { namedCurve: 'P-384' })
        .publicKey.export({ type: 'spki', format: 'der' })
        .toString('base64'),
    ],
  ])('are not verified by %s', (_, text) => {
    expect(publicKeyOf(text)).toBeUndefined();
  });
});

test.each([
  ['dån@example.com', 'unsupported_address', null],
  ['ada@example.com', 'invalid_address', 'hard_bounce'],
])('a mail to %s that was dropped as invalid has the code %s', (email, code, cause) => {
  const { body } = call(event('dropped', { email, reason: 'Invalid' }));
  const parsed = sendgridReceipts.parse({ body: Buffer.from(body ?? '') } as never);
  const [receipt] = parsed.kind === 'receipts' ? parsed.receipts : [];
  expect(receipt?.failure).toMatchObject({ class: 'invalid_recipient', code });
  const failure = receipt?.failure ?? null;
  expect(causeOfReport({ receipt: 'undelivered', temporary: false, failure, engagement: null })).toBe(cause);
});
