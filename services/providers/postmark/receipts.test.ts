import { expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import postmark from './provider.ts';
import { postmarkReceipts } from './receipts.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const ID = '883953f4-6105-42a2-a16a-77a8eac79483';
const AT = Date.UTC(2026, 10, 22, 12, 0, 0, 273);
const WHEN = '2026-11-22T08:00:00.2735393-04:00';

const call = (RecordType: string, over: object): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    RecordType,
    ServerID: 23,
    MessageStream: 'outbound',
    MessageID: ID,
    Tag: '',
    Metadata: { despatch_message_id: REFERENCE },
    ...over,
  }),
});
const bounce = (Type: string, over: object = {}) =>
  call('Bounce', {
    // Exceeds the safe integer range of a number.
    ID: 4_323_372_036_854_776_000,
    Type,
    TypeCode: 1,
    Email: 'ada@example.com',
    BouncedAt: WHEN,
    Inactive: true,
    CanActivate: true,
    Subject: 'Hello',
    ...over,
  });

const about = { reference: REFERENCE, providerMessageId: ID, at: AT };
const undelivered = (Type: string, failure: object, over: object = {}) => ({
  name: `a bounce of the type ${Type}`,
  call: bounce(Type, over),
  receipts: [
    {
      ...about,
      state: 'undelivered',
      providerStatus: `Bounce:${Type}`,
      failure: { ...failure, providerCode: Type },
    } as object,
  ],
});
const waiting = (Type: string) => ({
  name: `a bounce of the type ${Type}`,
  call: bounce(Type),
  receipts: [{ ...about, providerStatus: `Bounce:${Type}` }],
});
const subscription = (name: string, over: object, receipt: object) => ({
  name,
  call: call('SubscriptionChange', { ChangedAt: WHEN, Recipient: 'ada@example.com', ...over }),
  receipts: [{ ...about, ...receipt }],
});

receiptSuite({
  provider: postmark,
  account: { publicConfig: {}, secretConfig: { serverToken: 'canary-1' } },
  otherAccount: { publicConfig: {}, secretConfig: { serverToken: 'canary-2' } },
  reference: REFERENCE,
  // Postmark does not sign its calls: the token in the URL is the secret.
  sign: undefined,
  covers: { body: false, url: false, timestamp: false },
  calls: [
    {
      name: 'Delivery',
      call: call('Delivery', { Recipient: 'ada@example.com', DeliveredAt: WHEN, Details: '250 OK' }),
      receipts: [{ ...about, state: 'delivered', providerStatus: 'Delivery' }],
    },
    undelivered(
      'HardBounce',
      {
        class: 'invalid_recipient',
        code: 'unknown_recipient',
        providerMessage: 'smtp;550 5.1.1 [redacted] does not exist',
      },
      { Details: 'smtp;550 5.1.1 ada@example.com does not exist' },
    ),
    undelivered(
      'SoftBounce',
      { class: 'recipient_unavailable', code: 'bounced', providerMessage: 'Mailbox busy' },
      { Description: 'Mailbox busy' },
    ),
    undelivered('Unknown', { class: 'recipient_unavailable', code: 'bounced' }),
    undelivered('BadEmailAddress', { class: 'invalid_recipient', code: 'invalid_address' }),
    undelivered('Blocked', { class: 'content_rejected', code: 'rejected_by_policy' }),
    undelivered(
      'SpamNotification',
      {
        class: 'content_rejected',
        code: 'rejected_by_policy',
        providerMessage: 'smtp;550 5.1.1 [redacted] is protected by a spam filter',
      },
      { Details: 'smtp;550 5.1.1 ada@example.com is protected by a spam filter' },
    ),
    undelivered('VirusNotification', { class: 'content_rejected', code: 'virus_suspected' }),
    undelivered('DMARCPolicy', { class: 'sender_rejected', code: 'sender_unauthenticated' }),
    undelivered('ManuallyDeactivated', { class: 'recipient_unavailable', code: 'recipient_inactive' }),
    undelivered('SMTPApiError', { class: 'content_rejected', code: 'invalid_content' }),
    ...[
      'Transient',
      'DnsError',
      'AutoResponder',
      'AddressChange',
      'ChallengeVerification',
      'constructor',
    ].map(waiting),
    {
      name: 'a bounce of the type Unsubscribe',
      call: bounce('Unsubscribe'),
      receipts: [{ ...about, engagement: 'unsubscribed' }],
    },
    {
      name: 'SpamComplaint',
      call: call('SpamComplaint', { Type: 'SpamComplaint', Email: 'ada@example.com', BouncedAt: WHEN }),
      receipts: [{ ...about, engagement: 'complained', providerStatus: 'SpamComplaint' }],
    },
    {
      name: 'the first Open',
      call: call('Open', { FirstOpen: true, ReceivedAt: WHEN, Recipient: 'ada@example.com' }),
      receipts: [{ ...about, engagement: 'opened' }],
    },
    {
      name: 'a later Open',
      call: call('Open', { FirstOpen: false, ReceivedAt: '2026-11-22T12:00:01Z' }),
      receipts: [{ ...about, at: Date.UTC(2026, 10, 22, 12, 0, 1), engagement: 'opened' }],
    },
    {
      name: 'Click',
      call: call('Click', { OriginalLink: 'https://acme.example', ReceivedAt: WHEN }),
      receipts: [{ ...about, engagement: 'clicked' }],
    },
    subscription(
      'a SubscriptionChange of the recipient',
      { SuppressSending: true, SuppressionReason: 'ManualSuppression', Origin: 'Recipient' },
      { engagement: 'unsubscribed', providerStatus: 'SubscriptionChange:ManualSuppression' },
    ),
    subscription(
      'a SubscriptionChange after a reported bounce',
      { SuppressSending: true, SuppressionReason: 'HardBounce' },
      { providerStatus: 'SubscriptionChange:HardBounce' },
    ),
    subscription(
      'a SubscriptionChange back',
      { SuppressSending: false, SuppressionReason: null },
      { providerStatus: 'SubscriptionChange' },
    ),
    {
      name: 'a report without metadata',
      call: call('Delivery', { Metadata: null, DeliveredAt: 'yesterday' }),
      receipts: [{ providerMessageId: ID, state: 'delivered' }],
    },
    {
      name: 'a manual SubscriptionChange',
      call: call('SubscriptionChange', {
        MessageID: '00000000-0000-0000-0000-000000000000',
        Metadata: {},
        SuppressSending: true,
        SuppressionReason: 'ManualSuppression',
      }),
      receipts: [],
    },
    {
      name: 'an inbound message',
      call: call('Inbound', { From: 'ada@example.com', TextBody: 'Hi' }),
      receipts: [],
    },
  ],
});

test('a transient bounce and a reactivation report neither a state nor an engagement', () => {
  const parse = (unsigned: UnsignedCall) =>
    postmarkReceipts.parse({
      method: 'POST',
      url: RECEIPT_URL,
      headers: {},
      body: Buffer.from(unsigned.body ?? ''),
      receivedAt: 0,
    });
  const [transient, resubscribed] = [
    parse(bounce('Transient')),
    parse(call('SubscriptionChange', { SuppressSending: false })),
  ].map((parsed) => (parsed.kind === 'receipts' ? parsed.receipts[0] : undefined));
  for (const receipt of [transient, resubscribed]) {
    expect(receipt).not.toHaveProperty('state');
    expect(receipt).not.toHaveProperty('engagement');
  }
});
