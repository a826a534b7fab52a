import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#core/domain/text/duration.ts';
import { refusedAgainMs } from './refused-again.ts';

test.each([
  [0, MINUTE_MS],
  [5 * MINUTE_MS, 5 * MINUTE_MS],
  [10 * HOUR_MS, HOUR_MS],
  [DAY_MS - 1, HOUR_MS],
  [DAY_MS, undefined],
])('a call of %d ms with a wrong signature is read again after %s ms', (ageMs, again) => {
  expect(refusedAgainMs('signature_mismatch', ageMs)).toBe(again);
});

test('only what other settings can change is read again', () => {
  const reasons = ['signature_missing', 'unknown_sender', 'timestamp_out_of_tolerance'] as const;
  expect(reasons.map((reason) => refusedAgainMs(reason, 0))).toEqual([undefined, MINUTE_MS, undefined]);
});
