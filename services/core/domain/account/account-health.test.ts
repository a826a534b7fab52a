import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { accountHealthOf } from './account-health.ts';
import { timeBucket } from '../tenant/time-buckets.ts';

const counts = fc.record({
  accepted: fc.nat(1_000),
  refused: fc.nat(1_000),
  failed: fc.nat(1_000),
  delivered: fc.integer({ min: -5, max: 1_000 }),
  undelivered: fc.integer({ min: -5, max: 1_000 }),
  callTimes: fc.array(fc.nat(100), { maxLength: 121 }),
});

test('rates are between 0 and 1, and null if there is nothing to count', () => {
  fc.assert(
    fc.property(counts, (given) => {
      const { calls, successRate, deliveryRate, callTime, delivered, undelivered } = accountHealthOf(given);
      expect(calls).toBe(given.accepted + given.refused + given.failed);
      expect(successRate === null).toBe(given.accepted + given.failed === 0);
      expect(deliveryRate === null).toBe(delivered + undelivered === 0);
      for (const share of [successRate ?? 0, deliveryRate ?? 0]) {
        expect(share).toBeGreaterThanOrEqual(0);
        expect(share).toBeLessThanOrEqual(1);
      }
      expect(callTime?.p50 ?? 0).toBeLessThanOrEqual(callTime?.p95 ?? 0);
    }),
  );
});

test('an account whose calls half fail has a rate, and one without calls none', () => {
  const none = { accepted: 0, refused: 3, failed: 0, delivered: 0, undelivered: 0, callTimes: [] };
  expect(accountHealthOf(none)).toMatchObject({ successRate: null, deliveryRate: null, callTime: null });
  expect(accountHealthOf({ ...none, accepted: 7, failed: 7 }).successRate).toBe(0.5);
});

test('a refused recipient does not lower the success rate of the account', () => {
  const callTimes: number[] = [];
  for (const ms of [...Array<number>(94).fill(100), ...Array<number>(6).fill(2_000)])
    callTimes[timeBucket(ms)] = (callTimes[timeBucket(ms)] ?? 0) + 1;
  const given = { accepted: 90, refused: 9, failed: 1, delivered: 3, undelivered: 1 };
  expect(accountHealthOf({ ...given, callTimes: Array.from(callTimes, (n) => n ?? 0) })).toMatchObject({
    calls: 100,
    successRate: 0.989,
    callTime: { p50: expect.closeTo(100, -1.3), p95: expect.closeTo(2_000, -2.6) },
    deliveryRate: 0.75,
  });
});
