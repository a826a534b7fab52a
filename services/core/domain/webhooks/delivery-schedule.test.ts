import { assert, double, integer, property } from 'fast-check';
import { expect, test } from 'vitest';
import { deliveryDelayMs } from './delivery-schedule.ts';

const random = double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test('a delivery is attempted ten times, with delays from 5 seconds to 24 hours', () => {
  const seconds = Array.from({ length: 10 }, (_, i) => (deliveryDelayMs(i + 1, 0.5) ?? 0) / 1_000);
  expect(seconds).toEqual([5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400, 0]);
  expect(deliveryDelayMs(10, 0.5)).toBeNull();
  expect(deliveryDelayMs(11, 0.5)).toBeNull();
});

test('each delay differs from the schedule by at most a fifth', () => {
  assert(
    property(integer({ min: 1, max: 9 }), random, (attempts, drawn) => {
      const middle = deliveryDelayMs(attempts, 0.5) ?? 0;
      const delay = deliveryDelayMs(attempts, drawn) ?? 0;
      expect(delay).toBeGreaterThanOrEqual(middle * 0.8 - 1);
      expect(delay).toBeLessThanOrEqual(middle * 1.2 + 1);
    }),
  );
});
