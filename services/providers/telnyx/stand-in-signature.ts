import { sign, type KeyObject } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';

/**
 * https://developers.telnyx.com/docs/messaging/messages/receiving-webhooks, "Signature verification".
 * @param key Telnyx's private key.
 * @param at milliseconds since the epoch.
 */
export function signTelnyxCall(call: ReceiptCall, key: KeyObject, at: number): ReceiptCall {
  const timestamp = String(Math.floor(at / 1_000));
  const signed = Buffer.concat([Buffer.from(`${timestamp}|`), call.body]);
  const headers = {
    'telnyx-signature-ed25519': sign(null, signed, key).toString('base64'),
    'telnyx-timestamp': timestamp,
  };
  return { ...call, headers: { ...call.headers, ...headers } };
}
