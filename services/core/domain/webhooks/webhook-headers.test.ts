import { describe, expect, test } from 'vitest';
import { redactionsOfHeaders, isSecretHeader, shownHeader, webhookHeaderFaults } from './webhook-headers.ts';

const rulesOf = (headers: Record<string, string>) => webhookHeaderFaults(headers).map(({ rule }) => rule);

describe('a header of an endpoint', () => {
  test.each([
    ['Authorization', 'Bearer abc.def-ghi'],
    ['X-Tenant', 'a'],
    ['x-1', '~'.repeat(1_000)],
    ['accept', 'application/json'],
    ['Secondary', 'is none of the Sec- headers'],
  ])('%s is allowed', (name, value) => {
    expect(rulesOf({ [name]: value })).toEqual([]);
  });

  test.each([
    'host',
    'Host',
    'content-type',
    'Content-Length',
    'content-anything',
    'Connection',
    'transfer-encoding',
    'TE',
    'trailer',
    'upgrade',
    'keep-alive',
    'Proxy-Authorization',
    'expect',
    'User-Agent',
    'Cookie',
    'webhook-id',
    'Webhook-Signature',
    'Accept-Encoding',
    'Sec-Fetch-Mode',
  ])('%s is reserved', (name) => {
    expect(rulesOf({ [name]: 'x' })).toEqual(['reserved']);
  });

  test.each(['', 'a b', 'x_y', 'x:y', 'x\r\ny', 'ä', 'a'.repeat(65)])('%j is not a valid name', (name) => {
    expect(rulesOf({ [name]: 'x' })).toEqual(['name']);
  });

  test.each(['', ' x', 'x ', 'a\r\nb: c', 'a\tb', 'ü', '…1234', 'x'.repeat(1_001), 'a\0'])(
    '%j is not a valid value',
    (value) => {
      const [found] = webhookHeaderFaults({ 'x-a': value });
      expect(found).toMatchObject({ name: 'x-a', rule: 'value' });
      if (value !== '' && value !== 'ü') expect(found?.message).not.toContain(value);
    },
  );

  test('may appear once regardless of case, and every fault is reported', () => {
    expect(rulesOf({ 'x-a': '1', 'X-A': '2', host: 'x', 'b c': 'x' })).toEqual([
      'single',
      'reserved',
      'name',
    ]);
  });
});

test('values of secret headers are masked except for their end, and short ones completely', () => {
  expect(shownHeader('X-Shop', 'a value to see')).toBe('a value to see');
  for (const name of ['Authorization', 'x-api-key', 'X-Token-2', 'MySecret']) {
    expect(isSecretHeader(name)).toBe(true);
    expect(shownHeader(name, 'Bearer abcdefgh1234')).toBe('…1234');
    expect(shownHeader(name, '12345678901')).toBe('…');
    expect(shownHeader(name, '123456789012')).toBe('…9012');
  }
  // A masked value can never be sent back and stored in place of the real one.
  expect(rulesOf({ Authorization: shownHeader('Authorization', 'Bearer abcdefgh1234') })).toEqual(['value']);
});

test('redactionsOfHeaders lists values to redact from responses, without insignificant words', () => {
  const headers = {
    Authorization: 'Bearer abcdefgh1234',
    'X-Key': 'short',
    'X-Shop': 'one',
    'X-Pair': 'a=longer-than-that; b',
    'X-Seven': 'seven77 seven77',
    'X-Eight': 'eight888',
    'X-Eights': 'eight888,  more888',
  };
  expect(redactionsOfHeaders(headers)).toEqual([
    'Bearer abcdefgh1234',
    'abcdefgh1234',
    'short',
    'a=longer-than-that; b',
    'a=longer-than-that',
    'seven77 seven77',
    'eight888',
    'eight888,  more888',
    'eight888',
  ]);
});

test('redactionsOfHeaders lists what a login of the scheme Basic means', () => {
  const basic = (login: string) => `Basic ${Buffer.from(login).toString('base64')}`;
  const redactions = (value: string) => redactionsOfHeaders({ Authorization: value });
  expect(redactions(basic('shop:sword:fish-2468'))).toContain('sword:fish-2468');
  expect(redactions(basic('shop:sword:fish-2468').replace('Basic', 'bASIC'))).toContain('sword:fish-2468');
  expect(redactions(basic('a-key-of-some-vendor:'))).toContain('a-key-of-some-vendor');
  expect(redactions(basic('the-shop:short'))).not.toContain('short');
  expect(redactions(basic('shop-without-password'))).toContain('shop-without-password');
});
