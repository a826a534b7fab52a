import { expect, test } from 'vitest';
import { DAY_MS } from '../text/duration.ts';
import { lifetimeOf } from './lifetime.ts';

test('a message lives for a day, a code for ten minutes, and none for longer than its record is kept', () => {
  expect(['transactional', 'marketing', 'otp'].map((one) => lifetimeOf(one as 'otp', 30))).toEqual([
    DAY_MS,
    DAY_MS,
    600_000,
  ]);
  expect(lifetimeOf('transactional', 0.5)).toBe(DAY_MS / 2);
});
