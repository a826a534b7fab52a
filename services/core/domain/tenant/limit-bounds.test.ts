import { expect, test } from 'vitest';
import { LIMIT_BOUNDS } from './limit-bounds.ts';
import { isRateLimit, LIMIT_NAMES, PLAN_NAMES, BUILT_IN_PLANS } from './plan.ts';

test('every limit has bounds, which are safe integers except for rates', () => {
  expect(Object.keys(LIMIT_BOUNDS)).toEqual(LIMIT_NAMES);
  for (const name of LIMIT_NAMES) {
    const { min, max } = LIMIT_BOUNDS[name];
    expect([Number.isSafeInteger(min), Number.isSafeInteger(max)]).toEqual([!isRateLimit(name), true]);
    expect(min).toBeGreaterThanOrEqual(0);
    expect(max).toBeGreaterThan(min);
  }
});

test.each(PLAN_NAMES)('every limit of the built-in plan %s lies within its bounds', (name) => {
  const outside = LIMIT_NAMES.filter((limit) => {
    const { min, max } = LIMIT_BOUNDS[limit];
    return BUILT_IN_PLANS[name][limit] < min || BUILT_IN_PLANS[name][limit] > max;
  });
  expect(outside).toEqual([]);
});
