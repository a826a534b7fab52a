import { expect, test } from 'vitest';
import { receiptKey, readReceiptToken } from '#core/domain/receipts/receipt-token.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { twilioReceipts } from '#providers/twilio/receipts.ts';
import { deliveryReports, receiptText, RECEIPT_BASE_URL } from './receipts.ts';
import { AUTH_TOKEN, type BenchTenant } from './seed.ts';

const PEPPER = 'a pepper of the tests that is long enough';
const ACCOUNT = '7f3b2a34-1111-4222-8333-444455556666';
const MESSAGE = '019a0000-0000-7000-8000-000000000001';
const SID = `SM${'0'.repeat(32)}`;
const tenant = { accountId: ACCOUNT } as BenchTenant;

test('a prepared receipt call has a valid URL token and a genuine signature of the provider', () => {
  const [report] = deliveryReports([{ id: MESSAGE, tenant, sid: SID, to: '+15550000001' }], PEPPER);
  if (report === undefined) throw new Error('no report was made');
  const [head = '', body = ''] = receiptText(report).split('\r\n\r\n');
  const path = /^POST (\S+) HTTP\/1.1\r\n/.exec(head)?.[1] ?? '';
  const token = /^\/v1\/receipts\/[0-9a-f-]+\/([^?]+)/.exec(path)?.[1] ?? '';
  expect(readReceiptToken(receiptKey(secret(PEPPER)), ACCOUNT, token)).toBe(1);
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
  const call = {
    method: 'POST',
    url: RECEIPT_BASE_URL + path,
    headers: { 'x-twilio-signature': /x-twilio-signature: (\S+)/i.exec(head)?.[1] ?? '' },
    body: Buffer.from(body),
    receivedAt: 0,
  } as const;
  const account = { config: {}, secrets: { authToken: AUTH_TOKEN } };
  expect(twilioReceipts.verify?.(call, account, undefined as never)).toEqual({ kind: 'genuine' });
  expect(twilioReceipts.parse(call)).toMatchObject({
    receipts: [{ reference: MESSAGE, providerMessageId: SID, state: 'delivered' }],
  });
});
