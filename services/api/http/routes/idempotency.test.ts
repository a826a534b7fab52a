import { describe, expect, test } from 'vitest';
import { IDEMPOTENCY_KEY, idempotencyKeyOf } from './idempotency.ts';

describe('an idempotency key', () => {
  const printable = Array.from({ length: 95 }, (_, i) => String.fromCharCode(0x20 + i)).join('');

  test.each([
    ['a', 'a'],
    ['"a"', 'a'],
    [' a b ', 'a b'],
    ['"', '"'],
    ['"a', '"a'],
    ['a"', 'a"'],
    ['" "', ' '],
    ['"""', '"'],
    [`x${printable}x`, `x${printable}x`],
    ['k'.repeat(255), 'k'.repeat(255)],
    [`"${'k'.repeat(255)}"`, 'k'.repeat(255)],
  ])('%j is read as %j from the header and from the body', (sent, key) => {
    expect(sent).toMatch(IDEMPOTENCY_KEY);
    expect(idempotencyKeyOf(sent, undefined)).toBe(key);
    expect(idempotencyKeyOf(undefined, sent)).toBe(key);
  });

  test.each([
    '',
    ' ',
    '""',
    'k'.repeat(256),
    `"${'k'.repeat(256)}"`,
    'a\tb',
    'a\n',
    'schlüssel',
    '\u007f',
    5,
    ['a'],
  ])('%j is refused', (sent) => {
    expect(String(sent)).not.toMatch(typeof sent === 'string' ? IDEMPOTENCY_KEY : /$^/);
    expect(() => idempotencyKeyOf(sent, undefined)).toThrow(
      expect.objectContaining({ code: 'validation_failed' }),
    );
  });
});
