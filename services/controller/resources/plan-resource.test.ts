import { writtenLimits } from './limit-fields.ts';
import { expect, test } from 'vitest';
import { CONDITION_ROWS, PLAN_ROWS } from '#test/suites/custom-resource-rows.ts';
import { BUILT_IN_PLANS, effectiveLimits } from '#core/domain/tenant/plan.ts';
import { builtInPlans } from '../plan/built-in-plans.ts';
import { PlanResource } from './plan-resource.ts';

/** Metadata that the API server adds to every object. */
const META = { uid: 'u', generation: 1, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };

const plan = (fields: object = {}): unknown => ({
  apiVersion: 'despatch.dev/v1alpha1',
  kind: 'Plan',
  metadata: { name: 'gold', ...META },
  spec: { displayName: 'Gold', limits: writtenLimits(BUILT_IN_PLANS.growth) },
  ...fields,
});

// test/integration/controller/crds.test.ts sends the same rows to a real API server.
test.each(PLAN_ROWS)(
  "the zod schema gives the API server's verdict on $what",
  ({ name = 'gold', spec, refused }) => {
    const parsed = PlanResource.safeParse(plan({ metadata: { name, ...META }, spec }));
    expect(parsed.success).toBe(refused === undefined);
  },
);

test.each(CONDITION_ROWS)(
  "the zod schema gives the API server's verdict on a status with $what",
  ({ status, refused }) => {
    if (refused?.includes('Duplicate') === true) return;
    expect(PlanResource.safeParse(plan({ status })).success).toBe(refused === undefined);
  },
);

test('the built-in plans are valid Plan objects, with the same limits as without a cluster', () => {
  const plans = builtInPlans().map((one) =>
    PlanResource.parse({ ...one, metadata: { ...META, ...one.metadata } }),
  );
  const inForce = plans.map(({ metadata, spec }) => [metadata.name, effectiveLimits(spec.limits)] as const);
  expect(Object.fromEntries(inForce)).toEqual(BUILT_IN_PLANS);
});
