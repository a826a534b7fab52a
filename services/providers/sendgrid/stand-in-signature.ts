import { createSign, type KeyObject } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';

/**
 * https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
 * @param key SendGrid's private key.
 * @param at milliseconds since the epoch.
 */
export function signSendgridCall(call: ReceiptCall, key: KeyObject, at: number): ReceiptCall {
  const timestamp = String(Math.floor(at / 1_000));
  const signature = createSign('sha256').update(timestamp).update(call.body).sign(key, 'base64');
  return {
    ...call,
    headers: {
      ...call.headers,
      'x-twilio-email-event-webhook-signature': signature,
      'x-twilio-email-event-webhook-timestamp': timestamp,
    },
  };
}
