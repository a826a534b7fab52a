import { describe, expect, test } from 'vitest';
import { receiptSuite, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { SentAccount } from '#test/suites/provider-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import { smsReceipts } from './sms-receipts.ts';
import { awsSms } from './sms.ts';
import { signedEnvelope, snsContext, TOPIC_ARN } from './stand-in-envelope.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const MESSAGE_ID = '862a8790-60c0-4430-9b2b-658bdexample';
const accountOf = (topicArn: string) => ({
  publicConfig: { region: 'eu-central-1', accessKeyId: 'AKIAIOSFODNN7EXAMPLE', topicArn },
  secretConfig: { secretAccessKey: 'canary-secret' },
});

/** https://docs.aws.amazon.com/sms-voice/latest/userguide/configuration-sets-event-format.html */
const event = (eventType: string, over: object = {}) => ({
  eventType,
  eventVersion: '1.0',
  eventTimestamp: 1_686_975_103_470,
  isFinal: true,
  originationPhoneNumber: '+12065550152',
  destinationPhoneNumber: '+14255550156',
  isoCountryCode: 'US',
  isInternationalSend: false,
  mcc: '310',
  mnc: '800',
  messageId: MESSAGE_ID,
  messageRequestTimestamp: 1_686_975_103_170,
  messageEncoding: 'GSM',
  messageType: 'TRANSACTIONAL',
  messageStatus: eventType.slice(5),
  context: { despatchMessageId: REFERENCE },
  totalMessageParts: 1,
  totalMessagePrice: 0.09582,
  ...over,
});
const call = (said: object): UnsignedCall => ({ body: JSON.stringify(said) });
const sign = (unsigned: ReceiptCall, { publicConfig }: SentAccount): ReceiptCall => {
  const Message = Buffer.from(unsigned.body).toString();
  const MessageId = `event-${Message.length}-${/"messageStatus":"(\w+)"/.exec(Message)?.[1]}`;
  const envelope = signedEnvelope({ Message, MessageId, TopicArn: String(publicConfig['topicArn']) }, '1');
  return { ...unsigned, body: Buffer.from(JSON.stringify(envelope)) };
};
const about = { reference: REFERENCE, providerMessageId: MESSAGE_ID, at: 1_686_975_103_470 };
const undelivered = (eventType: string, failureClass: string, code: string) => ({
  name: eventType,
  call: call(event(eventType, { messageStatusDescription: 'It was not' })),
  receipts: [
    {
      ...about,
      state: 'undelivered',
      failure: { class: failureClass, code, providerCode: eventType, providerMessage: 'It was not' },
    } as never,
  ],
});

receiptSuite({
  provider: awsSms,
  account: accountOf(TOPIC_ARN),
  otherAccount: accountOf(`${TOPIC_ARN}-other`),
  reference: REFERENCE,
  sign,
  covers: { body: true, url: false, timestamp: false },
  context: snsContext().context,
  calls: [
    { name: 'queued', call: call(event('TEXT_QUEUED')), receipts: [{ ...about, providerStatus: 'QUEUED' }] },
    { name: 'sent', call: call(event('TEXT_SENT')), receipts: [{ ...about, state: 'sent' }] },
    {
      name: 'accepted by the carrier',
      call: call(event('TEXT_SUCCESSFUL')),
      receipts: [{ ...about, state: 'sent', providerStatus: 'SUCCESSFUL' }],
    },
    { name: 'delivered', call: call(event('TEXT_DELIVERED')), receipts: [{ ...about, state: 'delivered' }] },
    { name: 'unknown', call: call(event('TEXT_UNKNOWN')), receipts: [{ ...about, state: 'sent' }] },
    {
      name: 'without our context',
      call: call(event('TEXT_DELIVERED', { context: null, messageStatus: 'DELIVERED2' })),
      receipts: [{ providerMessageId: MESSAGE_ID, state: 'delivered' }],
    },
    undelivered('TEXT_INVALID', 'invalid_recipient', 'invalid_number'),
    undelivered('TEXT_UNREACHABLE', 'recipient_unavailable', 'handset_unreachable'),
    undelivered('TEXT_CARRIER_UNREACHABLE', 'provider_unavailable', 'carrier_unreachable'),
    undelivered('TEXT_BLOCKED', 'recipient_unavailable', 'recipient_blocked'),
    undelivered('TEXT_CARRIER_BLOCKED', 'content_rejected', 'blocked'),
    undelivered('TEXT_SPAM', 'content_rejected', 'blocked'),
    undelivered('TEXT_INVALID_MESSAGE', 'content_rejected', 'invalid_content'),
    undelivered('TEXT_TTL_EXPIRED', 'recipient_unavailable', 'validity_expired'),
    undelivered('TEXT_PROTECT_BLOCKED', 'sender_rejected', 'region_not_permitted'),
    {
      name: 'to a recipient who opted out',
      call: call(event('TEXT_BLOCKED', { messageStatus: 'OPTED_OUT' })),
      receipts: [
        {
          state: 'undelivered',
          failure: {
            class: 'recipient_unavailable',
            code: 'recipient_opted_out',
            providerCode: 'TEXT_BLOCKED',
          },
        },
      ],
    },
    {
      name: 'about a voice call',
      call: call({ ...event('VOICE_COMPLETED'), messageStatus: 'x1' }),
      receipts: [],
    },
  ],
});

describe('an SMS event', () => {
  const parse = (body: string) =>
    smsReceipts.parse({
      method: 'POST',
      url: 'https://hooks.example/',
      headers: {},
      body: Buffer.from(JSON.stringify(signedEnvelope({ Message: body }, '2'))),
      receivedAt: 0,
    });

  test('that is not final is marked as temporary', () => {
    const body = JSON.stringify(event('TEXT_CARRIER_UNREACHABLE', { isFinal: false }));
    expect(parse(body)).toMatchObject({ receipts: [{ state: 'undelivered', isTemporary: true }] });
    expect(parse(JSON.stringify(event('TEXT_CARRIER_UNREACHABLE')))).not.toHaveProperty(
      'receipts.0.isTemporary',
    );
  });

  test.each(['', 'null', '[]', '{"eventType":"TEXT_SENT"}', '{"eventType":7}', 'Successfully validated'])(
    'is not parsed from %j',
    (body) => {
      expect(parse(body)).toEqual({ kind: 'receipts', receipts: [] });
    },
  );
});
