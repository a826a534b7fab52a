import { expect, test } from 'vitest';
import { PLANS } from '#core/domain/plan.ts';
import { policyOf } from './policies.ts';

test('the plan decides what a tenant may have in flight, but never over more than half of a process', () => {
  expect(policyOf(PLANS.free, 512)).toEqual({ weight: 1, inFlightMax: 50 });
  expect(policyOf(PLANS.enterprise, 512)).toEqual({ weight: 20, inFlightMax: 256 });
  expect(policyOf(PLANS.free, 1).inFlightMax).toBe(1);
});
