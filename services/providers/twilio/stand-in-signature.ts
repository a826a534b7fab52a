import { createHmac } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

/** https://www.twilio.com/docs/usage/security#validating-requests */
export function signTwilioCall(call: ReceiptCall, { secretConfig }: SigningAccount): ReceiptCall {
  const form = new URLSearchParams(Buffer.from(call.body).toString());
  const text = [...form]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .reduce((all, [name, value]) => all + name + value, call.url);
  const signature = createHmac('sha1', String(secretConfig['authToken'])).update(text).digest('base64');
  return { ...call, headers: { ...call.headers, 'x-twilio-signature': signature } };
}
