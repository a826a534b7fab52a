import { writtenLimits } from '../resources/limit-fields.ts';
import { describe, expect, test } from 'vitest';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { PlanResource } from '../resources/plan-resource.ts';
import { createPlanReconciler } from './reconcile-plan.ts';

const OURS = 'plan.despatch.dev/one';
const THEIRS = 'plan.despatch.dev/two';
const log = createLogger({ level: 'error', component: 'test', destination: { write: () => undefined } });

/** A plan in memory, and one reconciler per release that shares it. */
function setup(metadata: object = {}) {
  let plan: PlanResource | undefined = PlanResource.parse({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Plan',
    metadata: {
      name: 'growth',
      uid: 'u',
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...metadata,
    },
    spec: { displayName: 'Growth', limits: writtenLimits(BUILT_IN_PLANS.growth) },
  });
  const writes: string[] = [];
  const setFinalizers = (change: (finalizers: string[]) => string[]): void => {
    if (plan === undefined) return;
    const finalizers = change(plan.metadata.finalizers ?? []);
    const isGone = plan.metadata.deletionTimestamp !== undefined && finalizers.length === 0;
    plan = isGone ? undefined : { ...plan, metadata: { ...plan.metadata, finalizers } };
  };
  const release = (controllerName: string, bound: () => number, areTenantsKnown = () => true) => {
    const reconcile = createPlanReconciler({
      plans: { get: () => plan },
      countBoundTenants: bound,
      areTenantsKnown,
      controllerName,
      now: () => new Date(),
      resyncMs: 300_000,
      warning: (_plan, reason) => void writes.push(`${controllerName} warns ${reason}`),
      resources: {
        async addFinalizer(_plan, finalizer) {
          writes.push(`${controllerName} holds`);
          setFinalizers((finalizers) => [...finalizers, finalizer]);
          return plan;
        },
        async removeFinalizer(_plan, finalizer) {
          writes.push(`${controllerName} lets go`);
          setFinalizers((finalizers) => finalizers.filter((name) => name !== finalizer));
          return plan;
        },
        async applyStatus(_plan, status) {
          writes.push(`${controllerName} says`);
          if (plan !== undefined) plan = { ...plan, status };
        },
      },
    });
    return async (): Promise<string[]> => {
      writes.length = 0;
      await reconcile('growth', AbortSignal.timeout(1_000), log);
      return [...writes];
    };
  };
  /** Adds a condition as another writer would. */
  const addCondition = (type: string): void => {
    const [ready] = plan?.status?.conditions ?? [];
    if (plan?.status === undefined || ready === undefined) throw new Error('no status yet');
    const conditions = [{ ...ready, type }, ...(plan.status.conditions ?? [])];
    plan = { ...plan, status: { ...plan.status, conditions } };
  };
  const inUse = (): string | undefined =>
    plan?.status?.conditions?.find(({ type }) => type === 'InUse')?.message;
  return { release, inUse, addCondition, get: () => plan };
}

describe('a plan', () => {
  test('without tenants gets no finalizer', async () => {
    const s = setup();
    const one = s.release('one', () => 0);
    expect(await one()).toEqual(['one says']);
    expect(s.inUse()).toBe('No tenant is bound to the plan');
    expect(await one()).toEqual([]);
  });

  test('has a finalizer while tenants are bound to it, removed with the last of them', async () => {
    const s = setup();
    let bound = 2;
    const one = s.release('one', () => bound);
    expect(await one()).toEqual(['one holds', 'one says']);
    expect(s.get()?.metadata.finalizers).toEqual([OURS]);
    expect(await one()).toEqual([]);
    bound = 0;
    expect(await one()).toEqual(['one lets go', 'one says']);
    expect(s.get()?.metadata.finalizers).toEqual([]);
  });

  test('keeps its finalizer while some tenants cannot be listed', async () => {
    const s = setup({ finalizers: [OURS] });
    let areKnown = false;
    const one = s.release(
      'one',
      () => 0,
      () => areKnown,
    );
    expect(await one()).toEqual(['one says']);
    expect(s.get()?.metadata.finalizers).toEqual([OURS]);
    expect(s.inUse()).toBe('Tenants of: one');
    areKnown = true;
    expect(await one()).toEqual(['one lets go', 'one says']);
  });

  test('that is being deleted reports InUse, and loses its finalizer with its last tenant', async () => {
    const s = setup({ deletionTimestamp: '2026-02-01T00:00:00Z', finalizers: [OURS] });
    let bound = 1;
    const one = s.release('one', () => bound);
    expect(await one()).toEqual(['one warns InUse', 'one says']);
    bound = 0;
    expect(await one()).toEqual(['one lets go']);
    expect(s.get()).toBeUndefined();
  });

  test('that is being deleted gets no new finalizer', async () => {
    const s = setup({ deletionTimestamp: '2026-02-01T00:00:00Z', finalizers: [THEIRS] });
    expect(await s.release('one', () => 1)()).toEqual(['one warns InUse', 'one says']);
    expect(s.get()?.metadata.finalizers).toEqual([THEIRS]);
  });
});

test("another writer's condition causes no write and is not taken over", async () => {
  const s = setup();
  let bound = 0;
  const one = s.release('one', () => bound);
  await one();
  s.addCondition('Billed');
  expect(await one()).toEqual([]);
  bound = 1;
  expect(await one()).toEqual(['one holds', 'one says']);
  expect(s.get()?.status?.conditions?.map(({ type }) => type)).toEqual(['Ready', 'InUse']);
});

test('two releases that share a plan merge their status and stop writing', async () => {
  const s = setup();
  const [one, two] = [s.release('one', () => 1), s.release('two', () => 0)];
  const counts: number[] = [];
  for (let round = 0; round < 4; round += 1) counts.push((await one()).length + (await two()).length);
  expect(counts.slice(1)).toEqual([0, 0, 0]);
  expect(s.inUse()).toBe('Tenants of: one');

  const busy = s.release('two', () => 3);
  await busy();
  await one();
  expect(s.inUse()).toBe('Tenants of: one, two');
  expect([await one(), await busy()]).toEqual([[], []]);
});
