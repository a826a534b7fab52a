import { expect, test } from 'vitest';
import { startSinchStandIn } from '../../services/providers/sinch/stand-in.ts';
import { signSinchCall } from '../../services/providers/sinch/stand-in-signature.ts';
import { RECEIPT_URL } from '../suites/receipt-conformance.ts';
import { callOf, oracles, verdictOf } from './support/oracles.ts';
import { ENVELOPE, NOW, REFERENCE, twins } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Sinch = {
  SmsService: new (credentials: object) => {
    readonly batches: { send(data: { sendSMSRequestBody: object }): Promise<{ readonly id: string }> };
  };
  validateWebhookSignature(secret: string, headers: object, body: unknown): boolean;
  computeSignedData(body: string, nonce: string, timestamp: string): string;
  calculateWebhookSignature(signed: string, secret: string): string;
};
const { SmsService, validateWebhookSignature, computeSignedData, calculateWebhookSignature } =
  await vendorPackage<Sinch>('@sinch/sdk-core');

const webhookSecret = 'webhook-secret-1';
const account = {
  publicConfig: { servicePlanId: 'plan1', region: 'eu', from: '+15005550006' },
  secretConfig: { apiToken: 'token1', webhookSecret },
};

twins([
  {
    name: 'a text with what looks like a parameter',
    provider: 'sinch',
    account,
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: { body: 'Grüße ${name} 你好' } },
    standIn: startSinchStandIn,
    async sendBySdk() {
      const service = new SmsService({ servicePlanId: 'plan1', apiToken: 'token1', smsRegion: 'eu' });
      const { id } = await service.batches.send({
        sendSMSRequestBody: {
          from: '15005550006',
          to: ['15551230001'],
          body: 'Grüße ${name} 你好',
          type: 'mt_text',
          parameters: { name: { default: '${name}' } },
          client_reference: REFERENCE,
          expire_at: new Date(NOW + 3_600_000),
          delivery_report: 'per_recipient',
          callback_url: RECEIPT_URL,
        },
      });
      return id;
    },
    differences: [],
  },
]);

const report = {
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    type: 'recipient_delivery_report_sms',
    batch_id: '01FC66621XXXXX119Z8PMV1QPQ',
    client_reference: REFERENCE,
    code: 0,
    recipient: '15551230001',
    status: 'Delivered',
    operator: 'Grüße',
  }),
};

oracles([
  {
    name: 'a report',
    provider: 'sinch',
    account,
    call: report,
    signedByVendor: (call) => {
      const [nonce, timestamp] = ['01FJA8B4A7BM43YGWSG9GBV067', String(Math.floor(call.receivedAt / 1_000))];
      const signed = computeSignedData(Buffer.from(call.body).toString(), nonce, timestamp);
      return {
        ...call,
        headers: {
          ...call.headers,
          'x-sinch-webhook-signature': calculateWebhookSignature(signed, webhookSecret),
          'x-sinch-webhook-signature-nonce': nonce,
          'x-sinch-webhook-signature-timestamp': timestamp,
        },
      };
    },
    signedByUs: (call) => signSinchCall(call, account, call.receivedAt),
    takenByVendor: ({ headers, body }) =>
      validateWebhookSignature(webhookSecret, headers, Buffer.from(body).toString()),
  },
]);

test('sinch: JSON with spaces is genuine to us, and to the SDK only as text', async () => {
  const oracle = {
    provider: 'sinch',
    account,
    call: { ...report, body: '{ "type": "recipient_delivery_report_sms" }' },
  };
  const call = signSinchCall(callOf(oracle), account, Date.now());
  expect(await verdictOf(oracle, call)).toEqual({ kind: 'genuine' });
  const isTaken = (body: unknown) => validateWebhookSignature(webhookSecret, call.headers, body);
  expect(isTaken(oracle.call.body)).toBe(true);
  // The SDK serializes an object again before it verifies, so only bodies in compact form keep a valid signature.
  expect(isTaken(JSON.parse(oracle.call.body))).toBe(false);
});
