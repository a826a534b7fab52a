import { createHmac } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

/** https://developers.facebook.com/docs/graph-api/webhooks/getting-started#validate-payloads */
export function signMetaCall(unsigned: ReceiptCall, { secretConfig }: SigningAccount): ReceiptCall {
  const signature = createHmac('sha256', String(secretConfig['appSecret']))
    .update(unsigned.body)
    .digest('hex');
  return { ...unsigned, headers: { ...unsigned.headers, 'x-hub-signature-256': `sha256=${signature}` } };
}
