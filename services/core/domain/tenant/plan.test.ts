import { assert, constantFrom, dictionary, jsonValue, property } from 'fast-check';
import { expect, test } from 'vitest';
import {
  effectiveLimits,
  FREE,
  isRateLimit,
  LIMIT_NAMES,
  limitSources,
  PLAN_NAMES,
  BUILT_IN_PLANS,
} from './plan.ts';

test('a tenant without limits has the free plan', () => {
  expect(effectiveLimits()).toEqual(FREE);
  expect(effectiveLimits(null, null)).toEqual(BUILT_IN_PLANS.free);
  expect(new Set(Object.values(limitSources()))).toEqual(new Set(['default']));
});

test('an override takes precedence over the plan, and the plan over the default', () => {
  const plan = { messagesPerDay: 7, inFlightMax: 3 };
  const overrides = { messagesPerDay: 9 };
  expect(effectiveLimits(plan, overrides)).toEqual({ ...FREE, messagesPerDay: 9, inFlightMax: 3 });
  expect(limitSources(plan, overrides)).toMatchObject({
    messagesPerDay: 'override',
    inFlightMax: 'plan',
    apiKeysMax: 'default',
  });
});

test.each(PLAN_NAMES)('no limit of the plan %s is below that of the free plan', (name) => {
  for (const limit of LIMIT_NAMES) expect(BUILT_IN_PLANS[name][limit]).toBeGreaterThanOrEqual(FREE[limit]);
});

test('for any stored values, every limit is a nonnegative integer or a rate', () => {
  const anything = dictionary(constantFrom(...LIMIT_NAMES, 'unknown'), jsonValue());
  assert(
    property(anything, anything, (plan, overrides) => {
      const limits = effectiveLimits(plan, overrides);
      expect(Object.keys(limits)).toEqual(LIMIT_NAMES);
      for (const name of LIMIT_NAMES) {
        const value = limits[name];
        if (isRateLimit(name)) expect(value > 0 && value <= 1).toBe(true);
        else expect(Number.isSafeInteger(value) && value >= 0).toBe(true);
      }
    }),
  );
});

test('a limit may be 0, and an invalid one gets the default', () => {
  const inFlightMax = (value: unknown) => effectiveLimits({ inFlightMax: value }).inFlightMax;
  expect(inFlightMax(0)).toBe(0);
  for (const value of [-1, 1.5, 2 ** 53, '7', null]) expect(inFlightMax(value)).toBe(FREE.inFlightMax);
});

test('a rate may be a number or text, and an invalid one gets the default', () => {
  const limits = effectiveLimits(
    { hardBounceRateMax: '0.05', complaintRateMax: 1 },
    { complaintRateMax: '0.0010' },
  );
  expect(limits).toMatchObject({ hardBounceRateMax: 0.05, complaintRateMax: 0.001 });
  for (const value of [1, '1', '1.0'])
    expect(effectiveLimits({ hardBounceRateMax: value }).hardBounceRateMax).toBe(1);
  for (const value of ['', '0', '0.0', '2', '1.5', '5 %', '0.00001', 0, -1, 1.2, Number.NaN, null, ['0.5']])
    expect(effectiveLimits({ hardBounceRateMax: value }).hardBounceRateMax).toBe(FREE.hardBounceRateMax);
});
