import { describe, expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import definitions from './provider.ts';
import { infobipSmsReceipts } from './receipts.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const account = {
  publicConfig: { baseUrl: 'xyz123.api.infobip.com', from: '+447860099299' },
  secretConfig: { apiKey: 'canary0123456789abcdef-api-key' },
};

const STATUSES: Readonly<Record<string, readonly [groupId: number, groupName: string, name: string]>> = {
  2: [3, 'DELIVERED', 'DELIVERED_TO_OPERATOR'],
  3: [1, 'PENDING', 'PENDING_WAITING_DELIVERY'],
  4: [2, 'UNDELIVERABLE', 'UNDELIVERABLE_REJECTED_OPERATOR'],
  5: [3, 'DELIVERED', 'DELIVERED_TO_HANDSET'],
  9: [2, 'UNDELIVERABLE', 'UNDELIVERABLE_NOT_DELIVERED'],
  10: [5, 'REJECTED', 'REJECTED_DND'],
  15: [4, 'EXPIRED', 'EXPIRED_EXPIRED'],
  23: [5, 'REJECTED', 'REJECTED_DUPLICATE_MESSAGE_ID'],
  26: [1, 'PENDING', 'PENDING_ACCEPTED'],
};
const NO_ERROR = { groupId: 0, groupName: 'OK', id: 0, name: 'NO_ERROR', permanent: false };

const result = (id: keyof typeof STATUSES, error: object = NO_ERROR) => {
  const [groupId, groupName, name] = STATUSES[id] ?? [];
  return {
    bulkId: 'BULK-ID-123-xyz',
    messageId: REFERENCE,
    to: '15551230001',
    sentAt: '2026-11-22T11:59:50.000+0000',
    doneAt: '2026-11-22T13:00:00.000+0100',
    messageCount: 2,
    callbackData: REFERENCE,
    platform: {},
    price: { pricePerMessage: 0.01, currency: 'EUR' },
    status: { groupId, groupName, id: Number(id), name, description: `About +15551230001` },
    error: { ...error, description: 'About +15551230001' },
  };
};
const call = (...results: readonly object[]): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ results }),
});
const unknownSubscriber = {
  groupId: 1,
  groupName: 'HANDSET_ERRORS',
  id: 1,
  name: 'EC_UNKNOWN_SUBSCRIBER',
  permanent: true,
};
const about = { reference: REFERENCE, providerMessageId: REFERENCE };
const at = Date.UTC(2026, 10, 22, 12);

describe.each(definitions.map((provider) => [provider.id, provider] as const))('%s', (_, provider) => {
  receiptSuite({
    provider,
    account,
    otherAccount: account,
    reference: REFERENCE,
    // Both channels use the same parser.
    tells: ['read'],
    sign: undefined,
    covers: { body: false, url: false, timestamp: false },
    calls: [
      {
        name: 'delivered to the handset',
        call: call(result('5')),
        receipts: [{ ...about, state: 'delivered', at, providerStatus: 'DELIVERED_TO_HANDSET' }],
      },
      {
        name: 'delivered to the operator only',
        call: call(result('2')),
        receipts: [{ ...about, state: 'sent', providerStatus: 'DELIVERED_TO_OPERATOR' }],
      },
      { name: 'in transit', call: call(result('3')), receipts: [{ ...about, state: 'sent' }] },
      {
        name: 'accepted',
        call: call(result('26')),
        receipts: [{ ...about, providerStatus: 'PENDING_ACCEPTED' }],
      },
      {
        name: 'undeliverable for an unknown number',
        call: call(result('9', unknownSubscriber)),
        receipts: [
          {
            ...about,
            state: 'undelivered',
            failure: {
              class: 'invalid_recipient',
              code: 'unknown_recipient',
              providerCode: '1',
              providerMessage: 'EC_UNKNOWN_SUBSCRIBER',
            },
          },
        ],
      },
      {
        name: 'undeliverable because the handset is off',
        call: call(result('4', { ...unknownSubscriber, id: 27, name: 'EC_ABSENT_SUBSCRIBER' })),
        receipts: [
          {
            ...about,
            state: 'undelivered',
            failure: {
              class: 'recipient_unavailable',
              code: 'handset_unreachable',
              providerCode: '27',
              providerMessage: 'EC_ABSENT_SUBSCRIBER',
            },
          },
        ],
      },
      {
        name: 'expired',
        call: call(result('15')),
        receipts: [
          {
            ...about,
            state: 'undelivered',
            failure: {
              class: 'recipient_unavailable',
              code: 'validity_expired',
              providerCode: '15',
              providerMessage: 'EXPIRED_EXPIRED',
            },
          },
        ],
      },
      {
        name: 'rejected for the do-not-disturb register, with an unknown error',
        call: call(result('10', { id: 99_999, name: 'EC_NEW' })),
        receipts: [
          {
            ...about,
            state: 'undelivered',
            failure: {
              class: 'recipient_unavailable',
              code: 'recipient_blocked',
              providerCode: '99999',
              providerMessage: 'EC_NEW',
            },
          },
        ],
      },
      {
        name: 'rejected as a duplicate',
        call: call(result('23')),
        receipts: [{ ...about, providerStatus: 'REJECTED_DUPLICATE_MESSAGE_ID' }],
      },
      {
        name: 'seen',
        call: call({
          messageId: REFERENCE,
          from: '447860099299',
          to: '15551230001',
          sentAt: '2026-11-22T11:59:50.000+0000',
          seenAt: '2026-11-22T12:00:00.000+0000',
        }),
        receipts: [
          {
            ...about,
            state: 'delivered',
            engagement: 'read',
            at,
            providerStatus: 'SEEN',
          },
        ],
      },
      {
        name: 'an inbound message',
        call: call({
          messageId: 'abc',
          from: '15551230001',
          to: '447860099299',
          receivedAt: '2026-11-22T12:00:00.000+0000',
          message: { type: 'TEXT', text: 'STOP' },
        }),
        receipts: [],
      },
    ],
  });
});

describe('a report of Infobip', () => {
  const parse = (body: unknown) =>
    infobipSmsReceipts.parse({
      method: 'POST',
      url: RECEIPT_URL,
      headers: {},
      body: Buffer.from(JSON.stringify(body)),
      receivedAt: 0,
    });

  test.each([
    [1, 'invalid_recipient', 'unknown_recipient'],
    [351, 'recipient_unavailable', 'undeliverable'],
    [368, 'sender_rejected', 'invalid_sender'],
    [542, 'provider_throttled', 'daily_cap_reached'],
    [573, 'recipient_unavailable', 'recipient_opted_out'],
    [603, 'recipient_unavailable', 'recipient_opted_out'],
    [607, 'content_rejected', 'blocked'],
    [629, 'invalid_recipient', 'unreachable_number'],
    [3041, 'invalid_recipient', 'unknown_recipient'],
    [2050, 'recipient_unavailable', 'recipient_blocked'],
    [4099, 'auth_or_config', 'insufficient_credit'],
    [7002, 'invalid_recipient', 'undeliverable'],
    [7003, 'recipient_unavailable', 'recipient_blocked'],
    [7009, 'content_rejected', 'invalid_template'],
    [7010, 'content_rejected', 'outside_window'],
    [7016, 'provider_throttled', 'quality_limited'],
    [7032, 'recipient_unavailable', 'not_delivered_by_choice'],
    [7033, 'recipient_unavailable', 'recipient_opted_out'],
    [7034, 'auth_or_config', 'sender_unregistered'],
    // The networks' own.
    [35, 'provider_unavailable', 'provider_error'],
    [71, 'provider_unavailable', 'provider_error'],
    [8, 'recipient_unavailable', 'handset_unreachable'],
    [262, 'recipient_unavailable', 'handset_unreachable'],
    [509, 'provider_unavailable', 'provider_error'],
    [1024, 'provider_unavailable', 'provider_error'],
    [1166, 'provider_unavailable', 'provider_error'],
    [1284, 'provider_unavailable', 'provider_error'],
    [1541, 'provider_unavailable', 'provider_error'],
    [1796, 'provider_unavailable', 'provider_error'],
    [4097, 'provider_unavailable', 'provider_error'],
    // The account's and the sender's.
    [433, 'auth_or_config', 'forbidden'],
    [579, 'sender_rejected', 'trial_restriction'],
    [592, 'sender_rejected', 'region_not_permitted'],
    [574, 'sender_rejected', 'sender_blocked'],
    [597, 'sender_rejected', 'route_not_available'],
    [601, 'sender_rejected', 'sender_not_enabled'],
    [815, 'unknown', 'delivery_unknown'],
    [2051, 'content_rejected', 'blocked'],
    [4096, 'content_rejected', 'invalid_content'],
    [4100, 'recipient_unavailable', 'validity_expired'],
    [10, 'invalid_recipient', 'unreachable_number'],
    [565, 'recipient_unavailable', 'recipient_blocked'],
    [5492, 'recipient_unavailable', 'recipient_rate_limited'],
    // India's register of senders and templates.
    [4106, 'sender_rejected', 'sender_blocked'],
    [4107, 'provider_unavailable', 'provider_error'],
    [4113, 'sender_rejected', 'sender_unregistered'],
    [4123, 'sender_rejected', 'sender_blocked'],
    [4147, 'sender_rejected', 'sender_blocked'],
    [4155, 'sender_rejected', 'sender_unregistered'],
    [4157, 'sender_rejected', 'sender_blocked'],
    [4127, 'content_rejected', 'template_unavailable'],
    [4150, 'content_rejected', 'template_unavailable'],
    [4129, 'content_rejected', 'invalid_template'],
    [4138, 'content_rejected', 'rejected_by_policy'],
    [4153, 'content_rejected', 'blocked'],
    [4137, 'recipient_unavailable', 'recipient_blocked'],
    // WhatsApp's.
    [7001, 'auth_or_config', 'sender_unregistered'],
    [7006, 'content_rejected', 'invalid_parameter'],
    [7007, 'content_rejected', 'rejected_by_policy'],
    [7026, 'provider_throttled', 'rate_limited'],
    [7031, 'content_rejected', 'invalid_template'],
    [7037, 'content_rejected', 'template_unavailable'],
    [7050, 'provider_unavailable', 'provider_error'],
    [7082, 'provider_unavailable', 'provider_error'],
    [7052, 'unknown', 'delivery_unknown'],
    [7081, 'sender_rejected', 'sender_not_enabled'],
    [7201, 'invalid_recipient', 'undeliverable'],
  ])('with the error %i has the class %s and the code %s', (id, failureClass, code) => {
    const error = { ...unknownSubscriber, id, name: 'EC_ANY' };
    expect(parse({ results: [result('4', error)] })).toMatchObject({
      receipts: [{ state: 'undelivered', failure: { class: failureClass, code, providerCode: String(id) } }],
    });
  });

  test('is read among others of one call, and unreadable ones are left out', () => {
    const other = { ...result('9'), messageId: 'other', callbackData: 'other' };
    expect(
      parse({ results: [result('5'), null, 7, {}, { messageId: 'x', status: 'y' }, other] }),
    ).toMatchObject({
      kind: 'receipts',
      receipts: [
        { ...about, state: 'delivered' },
        { reference: 'other', providerMessageId: 'other', state: 'undelivered' },
      ],
    });
  });

  test.each([
    ['2', undefined, REFERENCE],
    ['4', undefined, REFERENCE],
    ['4', 'other', 'other'],
    ['1', undefined, `${REFERENCE}-1`],
    ['10', undefined, REFERENCE],
    ['999', undefined, REFERENCE],
    ['02', undefined, `${REFERENCE}-02`],
    ['1000', undefined, `${REFERENCE}-1000`],
  ])(
    'of a message seen under the id with -%s and callback data %s refers to %s',
    (count, callbackData, reference) => {
      const messageId = `${REFERENCE}-${count}`;
      const seen = {
        messageId,
        from: '447860099299',
        to: '15551230001',
        seenAt: '2026-11-22T12:00:00.000+0000',
        callbackData,
      };
      expect(parse({ results: [seen] })).toMatchObject({
        receipts: [{ reference, providerMessageId: messageId, engagement: 'read' }],
      });
    },
  );

  test('contains no phone number', () => {
    expect(JSON.stringify(parse({ results: [result('9', unknownSubscriber)] }))).not.toContain('1555');
    const named = { ...unknownSubscriber, name: 'About +15551230001' };
    expect(JSON.stringify(parse({ results: [result('9', named)] }))).not.toContain('1555');
  });

  test("without a group id is read by the group's name, and an invalid time is left out", () => {
    const { status, ...rest } = result('5');
    const parsed = parse({
      results: [{ ...rest, doneAt: 'soon', status: { ...status, groupId: undefined } }],
    });
    expect(parsed).toMatchObject({ receipts: [{ state: 'delivered' }] });
    expect(parsed.kind === 'receipts' ? parsed.receipts[0] : {}).not.toHaveProperty('at');
  });
});
