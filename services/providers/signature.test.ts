import { expect, test } from 'vitest';
import { TIMESTAMP_TOLERANCE_MS } from './receipt.ts';
import { GENUINE, hmac, isSame, isTimely, MISMATCH, MISSING, UNTIMELY } from './signature.ts';

test.each([
  ['abc', 'abc', true],
  ['', '', true],
  ['abc', 'abd', false],
  ['abc', 'ab', false],
  ['é', 'e', false],
])('isSame() compares %s and %s: %s', (given, expected, isIt) => {
  expect(isSame(given, expected)).toBe(isIt);
});

test('an HMAC equals the test vector of RFC 4231, in hexadecimal and base64', () => {
  const digest = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843';
  expect(hmac('sha256', 'Jefe', 'what do ya want for nothing?')).toBe(digest);
  expect(hmac('sha256', 'Jefe', 'what do ya want for nothing?', 'base64')).toBe(
    Buffer.from(digest, 'hex').toString('base64'),
  );
});

test.each([
  [0, true],
  [TIMESTAMP_TOLERANCE_MS, true],
  [-TIMESTAMP_TOLERANCE_MS, true],
  [TIMESTAMP_TOLERANCE_MS + 1, false],
  [-TIMESTAMP_TOLERANCE_MS - 1, false],
])('a signature made %i ms from its arrival is timely: %s', (offset, isIt) => {
  expect(isTimely(1_700_000_000_000 + offset, 1_700_000_000_000)).toBe(isIt);
});

test('every verdict except genuine is forged, with a reason', () => {
  expect(GENUINE).toEqual({ kind: 'genuine' });
  expect([MISSING, MISMATCH, UNTIMELY]).toEqual([
    { kind: 'forged', reason: 'signature_missing' },
    { kind: 'forged', reason: 'signature_mismatch' },
    { kind: 'forged', reason: 'timestamp_out_of_tolerance' },
  ]);
});
