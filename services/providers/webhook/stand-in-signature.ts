import { createHmac } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

/**
 * https://www.standardwebhooks.com: HMAC-SHA256 over "id.timestamp.body", base64, prefixed with "v1,".
 * @param id equal for each repetition of the event.
 */
export function signGatewayCall(
  call: ReceiptCall,
  { secretConfig }: SigningAccount,
  at: number,
  id: string,
): ReceiptCall {
  const key = Buffer.from(String(secretConfig['signingSecret']).replace(/^whsec_/, ''), 'base64');
  const timestamp = Math.floor(at / 1_000);
  const hmac = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(call.body);
  return {
    ...call,
    headers: {
      ...call.headers,
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': `v1,${hmac.digest('base64')}`,
    },
  };
}
