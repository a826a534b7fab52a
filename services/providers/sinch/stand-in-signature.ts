import { createHmac } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

/**
 * https://developers.sinch.com/docs/conversation/callbacks, "Validating callbacks": body, nonce and timestamp, joined by
 * dots.
 */
export function signSinchCall(call: ReceiptCall, { secretConfig }: SigningAccount, at: number): ReceiptCall {
  const nonce = '01FJA8B4A7BM43YGWSG9GBV067';
  const timestamp = String(Math.floor(at / 1_000));
  const signature = createHmac('sha256', String(secretConfig['webhookSecret']))
    .update(call.body)
    .update(`.${nonce}.${timestamp}`)
    .digest('base64');
  const headers = {
    'x-sinch-webhook-signature': signature,
    'x-sinch-webhook-signature-algorithm': 'HmacSHA256',
    'x-sinch-webhook-signature-nonce': nonce,
    'x-sinch-webhook-signature-timestamp': timestamp,
  };
  return { ...call, headers: { ...call.headers, ...headers } };
}
