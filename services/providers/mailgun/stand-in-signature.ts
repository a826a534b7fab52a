import { createHmac, randomBytes } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

/**
 * https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks: timestamp and token, both in the
 * body.
 */
export function signMailgunCall(
  call: ReceiptCall,
  { secretConfig }: SigningAccount,
  at: number,
): ReceiptCall {
  const key = secretConfig['webhookSigningKey'];
  const [timestamp, token] = [String(Math.floor(at / 1_000)), randomBytes(25).toString('hex')];
  const signature = createHmac('sha256', String(key))
    .update(timestamp + token)
    .digest('hex');
  const event = JSON.parse(Buffer.from(call.body).toString()) as object;
  return {
    ...call,
    body: Buffer.from(JSON.stringify({ signature: { timestamp, token, signature }, ...event })),
  };
}
