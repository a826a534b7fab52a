import { createHash, createHmac } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

/** https://docs.svix.com/receiving/verifying-payloads/how-manual */
export function signResendCall(
  prefix: 'svix' | 'webhook',
  unsigned: ReceiptCall,
  sent: SigningAccount,
  at: number,
): ReceiptCall {
  const id = `msg_${createHash('sha256').update(unsigned.body).digest('hex').slice(0, 27)}`;
  const timestamp = String(Math.floor(at / 1_000));
  const key = Buffer.from(String(sent.secretConfig['webhookSecret']).split('_')[1] ?? '', 'base64');
  const signature = createHmac('sha256', key)
    .update(`${id}.${timestamp}.`)
    .update(unsigned.body)
    .digest('base64');
  return {
    ...unsigned,
    headers: {
      ...unsigned.headers,
      [`${prefix}-id`]: id,
      [`${prefix}-timestamp`]: timestamp,
      [`${prefix}-signature`]: `v1,${signature}`,
    },
  };
}
