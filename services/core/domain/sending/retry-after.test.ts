import { expect, test } from 'vitest';
import { retryAfterMs } from './retry-after.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');

test.each([
  [undefined, undefined],
  ['', undefined],
  ['soon', undefined],
  ['-5', undefined],
  ['1e3', undefined],
  ['NaN', undefined],
  ['2026-01-01T00:01:00Z', undefined],
  ['120', 120_000],
  [' 120 ', 120_000],
  ['1.5', 1_500],
  ['0', 1_000],
  ['0.01', 1_000],
  ['99999999999999999999', 900_000],
  ['Thu, 01 Jan 2026 00:01:00 GMT', 60_000],
  ['Thursday, 01-Jan-26 00:01:00 GMT', 60_000],
  ['Thu Jan  1 00:01:00 2026', 60_000],
  ['Thu, 01 Jan 2026 02:01:00 +0200', 60_000],
  ['01 Jan 2026 00:01:00 GMT', undefined],
  ['Thu, 01 Jan 2020 00:00:00 GMT', 1_000],
  ['Thu, 01 Jan 2099 00:00:00 GMT', 900_000],
  ['Thu, 99 Foo 2026 00:00:00 GMT', undefined],
])('Retry-After %j asks for %j milliseconds', (header, wait) => {
  expect(retryAfterMs(header, NOW)).toBe(wait);
});
