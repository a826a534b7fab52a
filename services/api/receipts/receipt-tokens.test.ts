import { expect, test } from 'vitest';
import { receiptKey, receiptToken } from '#core/domain/receipts/receipt-token.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { createReadToken } from './receipt-tokens.ts';

const key = receiptKey(secret('a pepper of the tests that is long enough'));
const ACCOUNT = '11111111-1111-4111-8111-111111111111';
const OTHER = '22222222-2222-4222-8222-222222222222';

test('a valid token is accepted repeatedly, also alternating with another version', () => {
  const read = createReadToken(key);
  const tokens = [1, 1, 2, 1, 2, 2].map((version) => receiptToken(key, ACCOUNT, version));
  expect(tokens.map((token) => read(ACCOUNT, token))).toEqual([1, 1, 2, 1, 2, 2]);
});

test.each([
  ["another account's", receiptToken(key, OTHER, 1)],
  ['truncated', receiptToken(key, ACCOUNT, 1).slice(0, -1)],
  ['longer', `${receiptToken(key, ACCOUNT, 1)}A`],
  ['prefixed with another version', receiptToken(key, ACCOUNT, 1).replace('1.', '2.')],
  ['non-ASCII with the same length in bytes', `1.${'é'.repeat(16)}`],
  ['empty', ''],
])('after a valid token, one that is %s is refused', (_name, token) => {
  const read = createReadToken(key);
  read(ACCOUNT, receiptToken(key, ACCOUNT, 1));
  expect([read(ACCOUNT, token), read(ACCOUNT, token)]).toEqual([undefined, undefined]);
});
