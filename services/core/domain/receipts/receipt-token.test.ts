import { createHmac, hkdfSync, randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { readReceiptToken, receiptKey, receiptToken, receiptUrl } from './receipt-token.ts';
import { secret } from '../storage/secret.ts';

const PEPPER = 'a pepper of the tests that is long enough';
const key = receiptKey(secret(PEPPER));
const account = '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10';

test('a token is its version and 24 bytes of an HMAC over account and version, with a derived key', () => {
  const own = Buffer.from(hkdfSync('sha256', PEPPER, '', 'despatch:v1:receipt-token', 32));
  const proof = createHmac('sha256', own)
    .update(`${account}.7`)
    .digest()
    .subarray(0, 24)
    .toString('base64url');
  expect(receiptToken(key, account, 7)).toBe(`7.${proof}`);
});

test('a token contains its version and is valid only for its account and pepper', () => {
  for (const version of [1, 2, 999_999_999]) {
    const token = receiptToken(key, account, version);
    expect(token).toMatch(/^\d+\.[A-Za-z0-9_-]{32}$/);
    expect(readReceiptToken(key, account, token)).toBe(version);
    expect(readReceiptToken(key, randomUUID(), token)).toBeUndefined();
    expect(readReceiptToken(receiptKey(secret(`${PEPPER}.`)), account, token)).toBeUndefined();
  }
});

test('no other text is a token', () => {
  const token = receiptToken(key, account, 2);
  const proof = token.slice(2);
  const others = [
    '',
    '.',
    '2.',
    proof,
    `.${proof}`,
    `1.${proof}`,
    `02.${proof}`,
    `+2.${proof}`,
    `2.0.${proof}`,
    `2e0.${proof}`,
    `20000000000.${proof}`,
    `0.${'.'.repeat(32)}`,
    `2.${'.'.repeat(32)}`,
    `${token}=`,
    `${token}\n`,
    ` ${token}`,
    token.slice(0, -1),
    `${token}A`,
    token.toUpperCase(),
    'x'.repeat(10_000),
  ];
  for (const other of others)
    expect([other, readReceiptToken(key, account, other)]).toEqual([other, undefined]);
});

test('a token with any changed character is refused', () => {
  const token = receiptToken(key, account, 1);
  for (let i = 2; i < token.length; i += 1) {
    const other = token[i] === 'A' ? 'B' : 'A';
    expect(readReceiptToken(key, account, token.slice(0, i) + other + token.slice(i + 1))).toBeUndefined();
  }
});

test('a receipt URL extends the base URL, with or without trailing slashes', () => {
  const url = `https://api.example.com/despatch/v1/receipts/${account}/1.abc`;
  expect(receiptUrl('https://api.example.com/despatch', account, '1.abc')).toBe(url);
  expect(receiptUrl('https://api.example.com/despatch/', account, '1.abc')).toBe(url);
  expect(receiptUrl('https://api.example.com/despatch//', account, '1.abc')).toBe(url);
});
