import { describe, expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import resend from './provider.ts';
import { resendReceipts } from './receipts.ts';
import { signResendCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const ID = '56761188-7520-42d8-8898-ff6fc54ce618';
const AT = Date.UTC(2026, 10, 22, 12, 0, 0, 126);
const secretOf = (name: string) => ({
  publicConfig: {},
  secretConfig: { apiKey: 're_canary', webhookSecret: `whsec_${btoa(name.repeat(3))}` },
});
const account = secretOf('canary-secret-1');

const call = (type: string, over: object = {}): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    type,
    created_at: '2026-11-22T12:00:00.126Z',
    data: {
      created_at: '2026-11-22T11:59:59.894719+00:00',
      email_id: ID,
      from: 'Acme <news@acme.example>',
      to: ['ada@example.com'],
      subject: 'Grüße ✓',
      tags: { despatch_message_id: REFERENCE },
      ...over,
    },
  }),
});

const about = { reference: REFERENCE, providerMessageId: ID, at: AT };
const bounced = (name: string, bounce: object | undefined, failure: object) => ({
  name,
  call: call('email.bounced', { bounce }),
  receipts: [{ ...about, state: 'undelivered', failure } as object],
});
const engaged = (type: string, engagement: 'opened' | 'clicked' | 'complained') => ({
  name: type,
  call: call(type),
  receipts: [{ ...about, engagement, providerStatus: type }],
});

receiptSuite({
  provider: resend,
  account,
  otherAccount: secretOf('canary-secret-2'),
  reference: REFERENCE,
  sign: (unsigned, sent, at) => signResendCall('svix', unsigned, sent, at),
  covers: { body: true, url: false, timestamp: true },
  calls: [
    { name: 'sent', call: call('email.sent'), receipts: [{ ...about, state: 'sent' }] },
    { name: 'delivered', call: call('email.delivered'), receipts: [{ ...about, state: 'delivered' }] },
    {
      name: 'delayed',
      call: call('email.delivery_delayed'),
      receipts: [{ ...about, providerStatus: 'email.delivery_delayed' }],
    },
    {
      name: 'scheduled',
      call: call('email.scheduled'),
      receipts: [{ ...about, providerStatus: 'email.scheduled' }],
    },
    bounced(
      'a bounce of an unknown mailbox',
      { type: 'Permanent', subType: 'NoEmail', message: 'No mailbox ada@example.com.' },
      {
        class: 'invalid_recipient',
        code: 'unknown_recipient',
        providerCode: 'NoEmail',
        providerMessage: 'No mailbox [redacted].',
      },
    ),
    bounced(
      'a hard bounce of the general type',
      { type: 'Permanent', subType: 'General', message: 'A hard bounce.' },
      { class: 'invalid_recipient', code: 'bounced', providerCode: 'General' },
    ),
    bounced(
      'a bounce classified by its text',
      { type: 'Permanent', subType: 'General', message: 'smtp; 550 5.7.1 refused' },
      { class: 'content_rejected', code: 'rejected_by_policy' },
    ),
    bounced(
      "a bounce classified by the receiving server's answer",
      {
        type: 'Permanent',
        subType: 'General',
        message: 'The provider did not specify the reason.',
        diagnosticCode: ['smtp; 550 5.7.1 refused for ada@example.com'],
      },
      {
        class: 'content_rejected',
        code: 'rejected_by_policy',
        providerCode: 'General',
        providerMessage: 'smtp; 550 5.7.1 refused for [redacted]',
      },
    ),
    bounced(
      'a bounce with an answer that is not a text',
      { type: 'Permanent', subType: 'General', message: 'No reason.', diagnosticCode: [null] },
      { class: 'invalid_recipient', code: 'bounced', providerMessage: 'No reason.' },
    ),
    bounced(
      'a soft bounce',
      { type: 'Transient', subType: 'General' },
      { class: 'recipient_unavailable', code: 'bounced' },
    ),
    bounced(
      'a full mailbox',
      { type: 'Transient', subType: 'MailboxFull' },
      { class: 'recipient_unavailable', code: 'mailbox_full' },
    ),
    bounced(
      'an address on the suppression list',
      { type: 'Permanent', subType: 'Suppressed' },
      { class: 'recipient_unavailable', code: 'recipient_inactive' },
    ),
    bounced(
      'a type that is a JavaScript property name',
      { type: 'Undetermined', subType: 'constructor' },
      { class: 'recipient_unavailable', code: 'bounced', providerCode: 'constructor' },
    ),
    bounced('a bounce without details', undefined, { class: 'recipient_unavailable', code: 'bounced' }),
    bounced(
      'a bounce of an unknown type',
      { type: 'Pondered' },
      { class: 'recipient_unavailable', code: 'bounced', providerCode: 'Pondered' },
    ),
    {
      name: 'failed',
      call: call('email.failed', { failed: { reason: 'reached_daily_quota' } }),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: {
            class: 'auth_or_config',
            code: 'insufficient_credit',
            providerMessage: 'reached_daily_quota',
          },
        },
      ],
    },
    {
      name: 'failed for another reason',
      call: call('email.failed', { failed: { reason: 'other' } }),
      receipts: [{ ...about, state: 'undelivered', failure: { class: 'unknown', code: 'undelivered' } }],
    },
    {
      name: 'suppressed',
      call: call('email.suppressed', {
        suppressed: { type: 'OnAccountSuppressionList', message: 'On the list.' },
      }),
      receipts: [
        {
          ...about,
          state: 'undelivered',
          failure: {
            class: 'recipient_unavailable',
            code: 'recipient_inactive',
            providerCode: 'OnAccountSuppressionList',
            providerMessage: 'On the list.',
          },
        },
      ],
    },
    engaged('email.opened', 'opened'),
    engaged('email.clicked', 'clicked'),
    engaged('email.complained', 'complained'),
    {
      name: 'tags as a list',
      call: call('email.delivered', {
        email_id: undefined,
        tags: [
          { name: 'other', value: 'x' },
          { name: 'despatch_message_id', value: REFERENCE },
        ],
      }),
      receipts: [{ reference: REFERENCE, state: 'delivered' }],
    },
    {
      name: 'a mail of another sender in the same account',
      call: call('email.delivered', { tags: undefined }),
      receipts: [{ providerMessageId: ID, state: 'delivered' }],
    },
    { name: 'an inbound mail', call: call('email.received'), receipts: [] },
    { name: 'an event about contacts', call: call('contact.created'), receipts: [] },
  ],
});

describe('a Resend signature', () => {
  const NOW = Date.UTC(2026, 10, 22, 12);
  const arrived: ReceiptCall = {
    method: 'POST',
    url: RECEIPT_URL,
    headers: {},
    body: Buffer.from(call('email.sent').body ?? ''),
    receivedAt: NOW,
  };
  const judge = (given: ReceiptCall, webhookSecret?: string) =>
    resendReceipts.verify?.(
      given,
      { config: {}, secrets: { apiKey: 're_x', webhookSecret } },
      undefined as never,
    );
  const { webhookSecret } = account.secretConfig;

  test('is valid under the standard webhook header names too', () => {
    expect(judge(signResendCall('webhook', arrived, account, NOW), webhookSecret)).toEqual({
      kind: 'genuine',
    });
    const forged = signResendCall('webhook', arrived, secretOf('another-one-1'), NOW);
    expect(judge(forged, webhookSecret)).toMatchObject({ kind: 'forged' });
  });

  test('is valid among several, as during a secret rotation', () => {
    const signed = signResendCall('svix', arrived, account, NOW);
    const both = `v1,${btoa('x'.repeat(32))} v2,other ${signed.headers['svix-signature'] ?? ''}`;
    const headers = { ...signed.headers, 'svix-signature': both };
    expect(judge({ ...signed, headers }, webhookSecret)).toEqual({ kind: 'genuine' });
  });

  test("is valid for Svix's documented example", () => {
    // https://docs.svix.com/receiving/verifying-payloads/how-manual
    const example: ReceiptCall = {
      ...arrived,
      body: Buffer.from('{"test": 2432232314}'),
      headers: {
        'svix-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        'svix-timestamp': '1614265330',
        'svix-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
      },
      receivedAt: 1_614_265_330_000,
    };
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    expect(judge(example, secret)).toEqual({ kind: 'genuine' });
    expect(judge({ ...example, receivedAt: NOW }, secret)).toMatchObject({
      kind: 'forged',
      reason: 'timestamp_out_of_tolerance',
    });
  });

  test('is not required if the account has no secret', () => {
    expect(judge(arrived)).toEqual({ kind: 'genuine', isUnsigned: true });
  });
});
