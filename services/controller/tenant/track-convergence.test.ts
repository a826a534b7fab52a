import { writtenLimits } from '../resources/limit-fields.ts';
import { expect, test } from 'vitest';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { PlanResource } from '../resources/plan-resource.ts';
import { TenantResource } from '../resources/tenant-resource.ts';
import { createResourceCache } from '../runtime/resource-cache.ts';
import { trackConvergence } from './track-convergence.ts';

const GROUP = { apiVersion: 'despatch.dev/v1alpha1' };
let version = 0;

function tenant(
  name: string,
  { generation = 1, ready = 0, planGeneration = 1, metadata = {} } = {},
): TenantResource {
  return TenantResource.parse({
    ...GROUP,
    kind: 'Tenant',
    metadata: {
      name,
      namespace: 'team',
      uid: name,
      generation,
      resourceVersion: String((version += 1)),
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...metadata,
    },
    ...(ready === 0
      ? {}
      : {
          status: {
            observedGeneration: ready,
            plan: { name: 'free', generation: planGeneration },
            conditions: [
              {
                type: 'Ready',
                status: 'True',
                reason: 'Reconciled',
                message: '',
                observedGeneration: ready,
                lastTransitionTime: '2026-01-01T00:00:00Z',
              },
            ],
          },
        }),
  });
}

function plan(generation = 1): PlanResource {
  return PlanResource.parse({
    ...GROUP,
    kind: 'Plan',
    metadata: {
      name: 'free',
      uid: 'p',
      generation,
      resourceVersion: String((version += 1)),
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: { displayName: 'Free', limits: writtenLimits(BUILT_IN_PLANS.free) },
  });
}

/** Caches and a clock (in seconds) that the test sets. */
async function setup(...present: readonly TenantResource[]) {
  const log = silentLogger;
  const indexes = { plan: (one: TenantResource) => [one.spec.planRef.name] };
  const tenants = createResourceCache<TenantResource>({ kind: 'Tenant', log, indexes });
  const plans = createResourceCache<PlanResource>({ kind: 'Plan', log });
  const told: number[] = [];
  const clock = { seconds: Date.parse('2026-01-01T01:00:00Z') / 1_000 };
  const tracking = trackConvergence({
    tenants: tenants.cache,
    plans: plans.cache,
    tenantsOf: (name) => tenants.cache.byIndex('plan', name),
    onConverged: (seconds) => told.push(seconds),
    steadyEpochMs: () => clock.seconds * 1_000,
  });
  for (const one of present) tenants.put(one);
  tenants.markSynced();
  // Plans are listed last: until then no plan counts as missing.
  plans.put(plan());
  plans.markSynced();
  await Promise.all([tenants.cache.synced, plans.cache.synced]);
  await Promise.resolve();
  return { tenants, plans, told, clock, tracking };
}

test('a plan change is reported per tenant, and the longest wait rises until the last one', async () => {
  const { tenants, plans, told, clock, tracking } = await setup(
    tenant('a', { ready: 1 }),
    tenant('b', { ready: 1 }),
  );
  plans.put(plan(2));
  clock.seconds += 3;
  tenants.put(tenant('a', { ready: 1, planGeneration: 2 }));
  clock.seconds += 4;
  expect(tracking.longestWaitSeconds()).toBe(7);
  tenants.put(tenant('b', { ready: 1, planGeneration: 2 }));
  expect(told).toEqual([3, 7]);
  expect(tracking.longestWaitSeconds()).toBe(0);
});

test('a tenant from before the start waits since its creation, even if plans are listed late', async () => {
  const { tenants, told } = await setup(tenant('new'));
  tenants.put(tenant('new', { ready: 1 }));
  expect(told).toEqual([3_600]);
});

test('a tenant that is added later waits since its addition', async () => {
  const { tenants, told, clock } = await setup();
  tenants.put(tenant('new'));
  clock.seconds += 2;
  tenants.put(tenant('new', { ready: 1 }));
  expect(told).toEqual([2]);
});

test('a deleted tenant is no longer tracked, and a re-created one is tracked separately', async () => {
  const { tenants, told, clock, tracking } = await setup();
  const ending = { deletionTimestamp: '2026-01-02T00:00:00Z' };
  for (const name of ['waiting', 'gone']) tenants.put(tenant(name));
  tenants.put(tenant('waiting', { metadata: ending }));
  tenants.remove(tenant('gone'));
  expect(tracking.progress.size).toBe(0);
  clock.seconds += 60;
  // The last observations of the tenant, including the removal of its finalizer.
  tenants.put(tenant('waiting', { ready: 1, metadata: ending }));
  expect([tracking.progress.size, tracking.longestWaitSeconds()]).toEqual([0, 0]);
  tenants.put(tenant('waiting', { metadata: { uid: 'another' } }));
  clock.seconds += 1;
  tenants.put(tenant('waiting', { ready: 1, metadata: { uid: 'another' } }));
  expect(told).toEqual([1]);
});

test('only existing tenants are tracked', async () => {
  const { tenants, tracking } = await setup();
  for (let i = 0; i < 100; i += 1) {
    tenants.put(tenant(`t-${i}`));
    tenants.put(tenant(`t-${i}`, { ready: 1 }));
    if (i % 10 !== 0) tenants.remove(tenant(`t-${i}`));
  }
  expect(tracking.progress.size).toBe(10);
  tenants.replace([], undefined);
  expect(tracking.progress.size).toBe(0);
});
