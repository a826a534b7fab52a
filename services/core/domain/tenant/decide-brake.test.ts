import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BRAKE_LEVELS, BRAKE_WINDOW, slowedGapMs } from './brake.ts';
import { decideBrake, type BrakeWindow } from './decide-brake.ts';
import { FREE } from './plan.ts';

const { hardBounceRateMax, complaintRateMax } = FREE;
const window = (over: Partial<BrakeWindow> = {}): BrakeWindow => ({
  finals: 1_000,
  hardBounces: 0,
  complaints: 0,
  level: null,
  ...over,
});
const rate = fc.integer({ min: 1, max: 9_999 }).map((n) => n / 10_000);
const limits = fc.record({ hardBounceRateMax: rate, complaintRateMax: rate });
const windows = fc.record({
  finals: fc.integer({ min: 1, max: 1_049 }),
  hardBounces: fc.nat({ max: 1_100 }),
  complaints: fc.nat({ max: 1_100 }),
  level: fc.option(fc.constantFrom(...BRAKE_LEVELS)),
});

describe('a brake', () => {
  test.each([
    [100, 0, null],
    [101, 0, { level: 'slowed', reason: 'hard_bounce_rate', rate: 0.101, bound: 0.1 }],
    [199, 0, { level: 'slowed', reason: 'hard_bounce_rate', rate: 0.199, bound: 0.1 }],
    [200, 0, { level: 'held', reason: 'hard_bounce_rate', rate: 0.2, bound: 0.1 }],
    [0, 3, null],
    [0, 4, { level: 'slowed', reason: 'complaint_rate', rate: 0.004, bound: 0.003 }],
    [0, 6, { level: 'held', reason: 'complaint_rate', rate: 0.006, bound: 0.003 }],
    [150, 6, { level: 'held', reason: 'complaint_rate', rate: 0.006, bound: 0.003 }],
  ])('is decided for 1,000 finals with %i bounces and %i complaints', (hardBounces, complaints, decision) => {
    expect(decideBrake(window({ hardBounces, complaints }), FREE)).toEqual(decision);
  });

  test('is never applied before 1,000 finals, and never loosened', () => {
    fc.assert(
      fc.property(windows, limits, (found, bounds) => {
        const decision = decideBrake(found, bounds);
        if (decision === null) return;
        expect(found.finals).toBeGreaterThanOrEqual(BRAKE_WINDOW);
        expect(found.level === null || (found.level === 'slowed' && decision.level === 'held')).toBe(true);
      }),
    );
  });

  test('slows above a bound and holds from twice the bound on', () => {
    fc.assert(
      fc.property(windows, limits, ({ hardBounces, complaints }, bounds) => {
        const found = { finals: 1_000, hardBounces, complaints, level: null };
        const over = (times: bigint, isReached: (a: bigint, b: bigint) => boolean): boolean =>
          [
            [hardBounces, bounds.hardBounceRateMax] as const,
            [complaints, bounds.complaintRateMax] as const,
          ].some(([n, bound]) => isReached(BigInt(n) * 10n, times * BigInt(Math.round(bound * 10_000))));
        const level = over(2n, (a, b) => a >= b) ? 'held' : over(1n, (a, b) => a > b) ? 'slowed' : null;
        expect(decideBrake(found, bounds)?.level ?? null).toBe(level);
      }),
    );
  });

  test('is disabled by a bound of 1, and reports no rate above 1', () => {
    const all = window({ hardBounces: 1_200 });
    expect(decideBrake(all, { hardBounceRateMax: 1, complaintRateMax })).toBeNull();
    expect(decideBrake(all, { hardBounceRateMax, complaintRateMax })?.rate).toBe(1);
  });
});

test('a slowed channel sends per hour a tenth of its busiest hour, and at least six messages', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000_000 }), (busiestHour) => {
      expect(3_600_000 / slowedGapMs(busiestHour)).toBeCloseTo(Math.max(6, busiestHour / 10), 6);
    }),
  );
  expect(slowedGapMs(null)).toBe(600_000);
});
