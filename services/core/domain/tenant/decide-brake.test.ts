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
  hours: [],
  level: null,
  ...over,
});
const rate = fc.integer({ min: 1, max: 9_999 }).map((n) => n / 10_000);
const limits = fc.record({ hardBounceRateMax: rate, complaintRateMax: rate });
const windows = fc.record({
  finals: fc.integer({ min: 1, max: 1_049 }),
  hardBounces: fc.nat({ max: 1_100 }),
  complaints: fc.nat({ max: 1_100 }),
  hours: fc.array(
    fc.record({
      finals: fc.nat({ max: 3_000 }),
      hardBounces: fc.nat({ max: 400 }),
      complaints: fc.nat({ max: 20 }),
    }),
    { maxLength: 12 },
  ),
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

  test.each([
    ['slows a free channel', null, 101, 'slowed'],
    ['holds a free channel', null, 200, 'held'],
    ['leaves a slowed channel slowed', 'slowed', 199, null],
    ['holds a slowed channel from twice its bound on', 'slowed', 200, 'held'],
    ['leaves a held channel held', 'held', 1_000, null],
  ] as const)('%s', (_name, level, hardBounces, next) => {
    expect(decideBrake(window({ level, hardBounces }), FREE)?.level ?? null).toBe(next);
  });

  test('is never applied before 1,000 finals, and never loosened', () => {
    fc.assert(
      fc.property(windows, limits, (found, bounds) => {
        const decision = decideBrake(found, bounds);
        if (decision === null) return;
        const inHours = found.hours.reduce((sum, { finals }) => sum + finals, 0);
        expect(Math.max(found.finals, inHours)).toBeGreaterThanOrEqual(BRAKE_WINDOW);
        expect(found.level === null || (found.level === 'slowed' && decision.level === 'held')).toBe(true);
      }),
    );
  });

  test('slows above a bound and holds from twice the bound on', () => {
    fc.assert(
      fc.property(windows, limits, ({ hardBounces, complaints }, bounds) => {
        const found = window({ hardBounces, complaints });
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

const HOUR = { finals: 0, hardBounces: 0, complaints: 0 };

describe('reports about messages of an earlier hour', () => {
  const since = (n: number) => Array.from({ length: n }, () => ({ ...HOUR, finals: 40 }));
  const mailing = (complaints: number) =>
    window({ finals: 1_049, hours: [...since(30), { ...HOUR, finals: 50_000, complaints }, ...since(3)] });

  test.each([
    [50, null],
    [150, null],
    [160, { level: 'slowed', reason: 'complaint_rate', rate: 0.0032, bound: 0.003 }],
    [1_500, { level: 'held', reason: 'complaint_rate', rate: 0.0299, bound: 0.003 }],
  ])('count against its messages: %i complaints about 50,000', (n, decision) => {
    expect(decideBrake(mailing(n), FREE)).toEqual(decision);
  });

  test('count the same with whatever was sent well since', () => {
    const bad = { ...HOUR, finals: 2_000, hardBounces: 500 };
    const good = fc.array(fc.nat({ max: 1_000_000 }), { maxLength: 10 });
    fc.assert(
      fc.property(good, (newer) => {
        const hours = [...newer.map((finals) => ({ ...HOUR, finals: 1_000 + finals })), bad];
        expect(decideBrake(window({ hours }), FREE)).toMatchObject({ level: 'held', rate: 0.25 });
      }),
    );
  });

  test('never brake a channel of which no thousand consecutive messages exceed a bound', () => {
    const mild = fc.record({
      finals: fc.nat({ max: 5_000 }),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(mild, { maxLength: 50 }), (parts) => {
        const hours = parts.map(({ finals, part }) => ({
          finals,
          hardBounces: Math.floor(finals * hardBounceRateMax * part),
          complaints: Math.floor(finals * complaintRateMax * part),
        }));
        expect(decideBrake(window({ hours }), FREE)).toBeNull();
      }),
    );
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
