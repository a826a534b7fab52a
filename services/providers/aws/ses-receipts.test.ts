import { describe, expect, test } from 'vitest';
import { receiptSuite, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { SentAccount } from '#test/suites/provider-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import { sesReceipts } from './ses-receipts.ts';
import { ses } from './ses.ts';
import { signedEnvelope, snsContext, TOPIC_ARN } from './stand-in-envelope.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const MESSAGE_ID = '0107017c-example-000000';
const accountOf = (topicArn: string) => ({
  publicConfig: { region: 'eu-central-1', accessKeyId: 'AKIAIOSFODNN7EXAMPLE', topicArn },
  secretConfig: { secretAccessKey: 'canary-secret' },
});

/** https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-examples.html */
const event = (eventType: string, over: object = {}) => ({
  eventType,
  mail: {
    timestamp: '2026-11-22T11:59:00.000Z',
    source: 'Acme <news@acme.example>',
    sendingAccountId: '123456789012',
    messageId: MESSAGE_ID,
    destination: ['ada@example.com'],
    headersTruncated: false,
    headers: [{ name: 'Subject', value: 'Hi' }],
    tags: { 'ses:configuration-set': ['events'], despatch_message_id: [REFERENCE] },
  },
  ...over,
});
const call = (said: object): UnsignedCall => ({ body: JSON.stringify(said) });
let sequence = 0;
const ids = new Map<string, string>();
const sign = (unsigned: ReceiptCall, { publicConfig }: SentAccount): ReceiptCall => {
  const Message = Buffer.from(unsigned.body).toString();
  const MessageId = ids.get(Message) ?? `event-${(sequence += 1)}`;
  ids.set(Message, MessageId);
  const envelope = signedEnvelope({ Message, MessageId, TopicArn: String(publicConfig['topicArn']) }, '2');
  return { ...unsigned, body: Buffer.from(JSON.stringify(envelope)) };
};
const AT = '2026-11-22T12:00:00.123Z';
const about = { reference: REFERENCE, providerMessageId: MESSAGE_ID };
const at = Date.parse(AT);

const bounce = (
  bounceType: string,
  bounceSubType: string,
  failureClass: string,
  code: string,
  status: string | undefined = '5.1.1',
) => ({
  name: `a bounce ${bounceType}, ${bounceSubType}, ${status}`,
  call: call(
    event('Bounce', {
      bounce: {
        feedbackId: 'f',
        bounceType,
        bounceSubType,
        bouncedRecipients: [
          {
            emailAddress: 'ada@example.com',
            action: 'failed',
            status,
            diagnosticCode: `smtp; 550 ${status} <ada@example.com> unknown`,
          },
        ],
        timestamp: AT,
        reportingMTA: 'dsn; mta.example.com',
      },
    }),
  ),
  receipts: [
    {
      ...about,
      at,
      state: 'undelivered',
      providerStatus: 'Bounce',
      failure: {
        class: failureClass,
        code,
        providerCode: status,
        providerMessage: `smtp; 550 ${status} <[redacted]> unknown`,
      },
    } as never,
  ],
});

receiptSuite({
  provider: ses,
  account: accountOf(TOPIC_ARN),
  otherAccount: accountOf(`${TOPIC_ARN}-other`),
  reference: REFERENCE,
  sign,
  covers: { body: true, url: false, timestamp: false },
  context: snsContext().context,
  calls: [
    {
      name: 'sent',
      call: call(event('Send', { send: {} })),
      receipts: [{ ...about, state: 'sent', at: Date.UTC(2026, 10, 22, 11, 59) }],
    },
    {
      name: 'delivered',
      call: call(event('Delivery', { delivery: { timestamp: AT, recipients: ['ada@example.com'] } })),
      receipts: [{ ...about, state: 'delivered', at }],
    },
    {
      name: 'delivered, as an identity reports it, without tags',
      call: call({
        ...event('x', { eventType: undefined, notificationType: 'Delivery', delivery: { timestamp: AT } }),
        mail: { messageId: MESSAGE_ID },
      }),
      receipts: [{ providerMessageId: MESSAGE_ID, state: 'delivered', at }],
    },
    bounce('Permanent', 'General', 'invalid_recipient', 'unknown_recipient'),
    bounce('Permanent', 'NoEmail', 'invalid_recipient', 'invalid_address'),
    bounce('Permanent', 'OnAccountSuppressionList', 'invalid_recipient', 'bounced_before'),
    bounce('Permanent', 'UnsubscribedRecipient', 'recipient_unavailable', 'recipient_opted_out'),
    bounce('Transient', 'General', 'invalid_recipient', 'unknown_recipient'),
    bounce('Transient', 'General', 'recipient_unavailable', 'server_unreachable', '4.4.7'),
    bounce('Permanent', 'General', 'content_rejected', 'rejected_by_policy', '5.7.1'),
    bounce('Permanent', 'General', 'invalid_recipient', 'bounced', 'none'),
    bounce('Transient', 'General', 'recipient_unavailable', 'bounced', 'none'),
    bounce('Transient', 'MailboxFull', 'recipient_unavailable', 'mailbox_full'),
    bounce('Transient', 'ContentRejected', 'content_rejected', 'blocked'),
    bounce('Undetermined', 'constructor', 'invalid_recipient', 'unknown_recipient'),
    {
      name: 'a full mailbox without a delivery status notification',
      call: call(
        event('Bounce', {
          bounce: {
            bounceType: 'Transient',
            bounceSubType: 'MailboxFull',
            bouncedRecipients: [{ emailAddress: 'ada@example.com' }],
            timestamp: AT,
          },
        }),
      ),
      receipts: [
        {
          ...about,
          at,
          state: 'undelivered',
          failure: {
            class: 'recipient_unavailable',
            code: 'mailbox_full',
            providerCode: 'Transient MailboxFull',
          },
        },
      ],
    },
    {
      name: 'a bounce without details',
      call: call(event('Bounce', { bounce: 7 })),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: { class: 'recipient_unavailable', code: 'bounced', providerCode: 'Undetermined' },
        },
      ],
    },
    {
      name: 'a delay',
      call: call(event('DeliveryDelay', { deliveryDelay: { delayType: 'MailboxFull', timestamp: AT } })),
      receipts: [{ ...about, providerStatus: 'DeliveryDelay' }],
    },
    {
      name: 'a complaint',
      call: call(event('Complaint', { complaint: { timestamp: AT, complaintSubType: null } })),
      receipts: [{ ...about, engagement: 'complained', at }],
    },
    {
      name: 'not sent because of an earlier complaint',
      call: call(
        event('Complaint', { complaint: { timestamp: AT, complaintSubType: 'OnAccountSuppressionList' } }),
      ),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: {
            class: 'recipient_unavailable',
            code: 'recipient_opted_out',
            providerCode: 'OnAccountSuppressionList',
          },
        },
      ],
    },
    {
      name: 'rejected because of a virus',
      call: call(event('Reject', { reject: { reason: 'Bad content' } })),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: {
            class: 'content_rejected',
            code: 'blocked',
            providerCode: 'Reject',
            providerMessage: 'Bad content',
          },
        },
      ],
    },
    {
      name: 'a rendering failure',
      call: call(
        event('Rendering Failure', {
          failure: { errorMessage: 'Attribute x is missing', templateName: 't' },
        }),
      ),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: {
            class: 'content_rejected',
            code: 'rendering_failed',
            providerCode: 'Rendering Failure',
            providerMessage: 'Attribute x is missing',
          },
        },
      ],
    },
    {
      name: 'opened',
      call: call(event('Open', { open: { timestamp: AT, userAgent: 'x' } })),
      receipts: [{ ...about, engagement: 'opened', at }],
    },
    {
      name: 'clicked',
      call: call(event('Click', { click: { timestamp: AT, link: 'https://acme.example/' } })),
      receipts: [{ ...about, engagement: 'clicked', at }],
    },
    {
      name: 'unsubscribed',
      call: call(
        event('Subscription', {
          subscription: { timestamp: AT, newTopicPreferences: { unsubscribeAll: true } },
        }),
      ),
      receipts: [{ ...about, engagement: 'unsubscribed', at }],
    },
    {
      name: 'unsubscribed from one topic',
      call: call(
        event('Subscription', {
          subscription: {
            newTopicPreferences: {
              unsubscribeAll: false,
              topicSubscriptionStatus: [{ topicName: 'a', subscriptionStatus: 'OptOut' }],
            },
          },
        }),
      ),
      receipts: [{ ...about, engagement: 'unsubscribed' }],
    },
    {
      name: 'subscribed again',
      call: call(event('Subscription', { subscription: { newTopicPreferences: { unsubscribeAll: false } } })),
      receipts: [{ ...about, providerStatus: 'Subscription' }],
    },
  ],
});

const parsedReceipt = (said: object) => {
  const body = Buffer.from(JSON.stringify(signedEnvelope({ Message: JSON.stringify(said) }, '2')));
  const url = 'https://hooks.example/';
  const parsed = sesReceipts.parse({ method: 'POST', url, headers: {}, body, receivedAt: 0 });
  return parsed.kind === 'receipts' ? parsed.receipts[0] : undefined;
};

describe('an SES event', () => {
  test.each([
    ['abuse', 'complained'],
    ['fraud', 'complained'],
    ['other', 'complained'],
    [null, 'complained'],
    ['not-spam', undefined],
    ['auth-failure', undefined],
  ])('of feedback of the type %s is %s', (complaintFeedbackType, engagement) => {
    const receipt = parsedReceipt(
      event('Complaint', { complaint: { timestamp: AT, complaintFeedbackType } }),
    );
    expect(receipt).toMatchObject({ ...about, at });
    expect([receipt?.engagement, receipt?.state]).toEqual([engagement, undefined]);
  });

  test.each([
    ['of a recipient', [{ emailAddress: 'ada@example.com' }], undefined],
    ['of no recipient', [], undefined],
    ['with a status', [{ emailAddress: 'ada@example.com', status: '4.4.7' }], 'undelivered'],
    ['with a diagnosis', [{ emailAddress: 'ada@example.com', diagnosticCode: '450 busy' }], 'undelivered'],
    ['with an action', [{ emailAddress: 'ada@example.com', action: 'failed' }], 'undelivered'],
  ])(
    'of a transient general bounce %s is an automatic reply only without a delivery status',
    (_, bouncedRecipients, state) => {
      const bounce = { bounceType: 'Transient', bounceSubType: 'General', bouncedRecipients, timestamp: AT };
      const receipt = parsedReceipt(event('Bounce', { bounce }));
      expect(receipt).toMatchObject({ ...about, at, providerStatus: 'Bounce' });
      expect(receipt?.state).toBe(state);
    },
  );

  test.each([
    'Successfully validated SNS topic for Amazon SES event publishing.',
    'null',
    '{"eventType":"Send"}',
    '{"mail":{"messageId":"x"}}',
  ])('is not parsed from %j', (Message) => {
    const body = Buffer.from(JSON.stringify(signedEnvelope({ Message }, '2')));
    expect(
      sesReceipts.parse({ method: 'POST', url: 'https://hooks.example/', headers: {}, body, receivedAt: 0 }),
    ).toEqual({
      kind: 'receipts',
      receipts: [],
    });
  });
});
