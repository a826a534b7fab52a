import { describe, expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import sinch from './provider.ts';
import { sinchReceipts } from './receipts.ts';
import { signSinchCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const BATCH = '01FC66621XXXXX119Z8PMV1QPQ';
const AT = '2026-11-22T11:59:30.148Z';
const account = {
  publicConfig: { servicePlanId: 'plan' },
  secretConfig: { apiToken: 'token', webhookSecret: 'canary-webhook-secret-1' },
};

const callback = (body: object): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});
const report = (status: string, code: number): UnsignedCall =>
  callback({
    at: AT,
    batch_id: BATCH,
    client_reference: REFERENCE,
    code,
    number_of_message_parts: 1,
    operator: '310260',
    operator_status_at: AT,
    recipient: '15551230001',
    status,
    type: 'recipient_delivery_report_sms',
  });

const about = { reference: REFERENCE, providerMessageId: BATCH, at: Date.parse(AT) };
const failed = (status: string, code: number, failure: object) => ({
  name: `${status} with code ${code}`,
  call: report(status, code),
  receipts: [
    {
      ...about,
      state: 'undelivered' as const,
      failure: { ...failure, providerCode: String(code) } as never,
      providerStatus: status,
    },
  ],
});

receiptSuite({
  provider: sinch,
  account,
  otherAccount: { ...account, secretConfig: { apiToken: 'token', webhookSecret: 'canary-webhook-secret-2' } },
  reference: REFERENCE,
  sign: signSinchCall,
  covers: { body: true, url: false, timestamp: true },
  calls: [
    {
      name: 'queued',
      call: report('Queued', 400),
      receipts: [{ ...about, providerStatus: 'Queued' }],
    },
    { name: 'dispatched', call: report('Dispatched', 401), receipts: [{ ...about, state: 'sent' }] },
    { name: 'delivered', call: report('Delivered', 0), receipts: [{ ...about, state: 'delivered' }] },
    { name: 'an unknown end', call: report('Unknown', 1), receipts: [{ ...about, state: 'sent' }] },
    failed('Failed', 402, { class: 'recipient_unavailable', code: 'unroutable' }),
    failed('Failed', 5, { class: 'provider_unavailable', code: 'provider_error' }),
    failed('Failed', 15, { class: 'content_rejected', code: 'blocked' }),
    failed('Failed', 60, { class: 'sender_rejected', code: 'sender_blocked' }),
    failed('Failed', 64, { class: 'provider_throttled', code: 'quota_exceeded' }),
    failed('Failed', 150, { class: 'invalid_recipient', code: 'unreachable_number' }),
    failed('Failed', 152, { class: 'recipient_unavailable', code: 'unsupported_recipient' }),
    failed('Expired', 201, { class: 'recipient_unavailable', code: 'handset_unreachable' }),
    failed('Failed', 207, { class: 'provider_unavailable', code: 'network_error' }),
    failed('Rejected', 310, { class: 'sender_rejected', code: 'invalid_sender' }),
    failed('Failed', 599, { class: 'unknown', code: 'undelivered' }),
    failed('Aborted', 410, { class: 'sender_rejected', code: 'missing_sender' }),
    failed('Rejected', 61, { class: 'recipient_unavailable', code: 'recipient_blocked' }),
    failed('Rejected', 599, { class: 'recipient_unavailable', code: 'refused_by_carrier' }),
    failed('Deleted', 599, { class: 'recipient_unavailable', code: 'undeliverable' }),
    failed('Expired', 406, { class: 'recipient_unavailable', code: 'message_expired' }),
    failed('Cancelled', 407, { class: 'unknown', code: 'canceled' }),
    {
      name: 'a report on a whole batch',
      call: callback({
        batch_id: 'another',
        statuses: [{ code: 404, count: 1, recipients: ['15551230001'], status: 'Failed' }],
        total_message_count: 1,
        type: 'delivery_report_sms',
      }),
      receipts: [
        {
          providerMessageId: 'another',
          state: 'undelivered',
          failure: { class: 'provider_unavailable', code: 'temporary_failure', providerCode: '404' },
        },
      ],
    },
    {
      name: 'an inbound message',
      call: callback({ id: BATCH, from: '15551230001', to: '15005550006', body: 'Hi', type: 'mo_text' }),
      receipts: [],
    },
  ],
});

describe('a Sinch callback', () => {
  const call = (body = '{}'): ReceiptCall => ({
    method: 'POST',
    url: RECEIPT_URL,
    headers: {},
    body: Buffer.from(body),
    receivedAt: 1_700_000_000_000,
  });
  const judge = (one: ReceiptCall, webhookSecret?: string) =>
    sinchReceipts.verify?.(one, { config: {}, secrets: { webhookSecret } }, undefined as never);

  test('may be unsigned if no secret is configured', () => {
    expect(judge(call())).toEqual({ kind: 'genuine', isUnsigned: true });
  });

  test('must be signed if a secret is configured', () => {
    expect(judge(call(), 'secret')).toEqual({ kind: 'forged', reason: 'signature_missing' });
  });

  test('is verified against its arrival time and exact bytes', () => {
    const secret = account.secretConfig.webhookSecret;
    const at = call().receivedAt;
    expect(judge(signSinchCall(call('{ "a": "\\u00e4" }\n'), account, at), secret)).toEqual({
      kind: 'genuine',
    });
    expect(judge(signSinchCall(call(), account, at - 301_000), secret)).toEqual({
      kind: 'forged',
      reason: 'timestamp_out_of_tolerance',
    });
  });
});
