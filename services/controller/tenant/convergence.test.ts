import { writtenLimits } from '../resources/limit-fields.ts';
import { describe, expect, test } from 'vitest';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { PlanResource } from '../resources/plan-resource.ts';
import { TenantResource } from '../resources/tenant-resource.ts';
import { longestWaitMs, nextProgress, type Progress, type Observation } from './convergence.ts';

const START = Date.parse('2026-01-01T01:00:00Z');

const plan = (generation = 1, uid = 'p'): PlanResource =>
  PlanResource.parse({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Plan',
    metadata: {
      name: 'free',
      uid,
      generation,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: { displayName: 'Free', limits: writtenLimits(BUILT_IN_PLANS.free) },
  });

/** A tenant of this generation with this status: for which generation and plan, and `True` or a reason. */
function tenant(generation: number, said?: string, of = { generation, plan: 1 }): TenantResource {
  const ready = {
    type: 'Ready',
    status: said === 'True' ? 'True' : 'False',
    reason: said === 'True' ? 'Reconciled' : said,
    message: '',
    observedGeneration: of.generation,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  return TenantResource.parse({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Tenant',
    metadata: {
      name: 'acme',
      namespace: 'team',
      uid: 'u',
      generation,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    ...(said === undefined
      ? {}
      : {
          status: {
            observedGeneration: of.generation,
            plan: { name: 'free', generation: of.plan },
            conditions: [ready],
          },
        }),
  });
}

const paused = (one: TenantResource): TenantResource => ({
  ...one,
  metadata: { ...one.metadata, annotations: { 'despatch.dev/paused': 'true' } },
});

type Seen = Partial<Omit<Observation, 'at'>> & { readonly tenant: TenantResource };

/** Returns the seconds reported for observations one second apart. */
function told(...observations: readonly Seen[]): number[] {
  let progress: Progress | undefined;
  return observations.flatMap((observation, i) => {
    const next = nextProgress(progress, {
      plan: plan(),
      isFromBefore: false,
      ...observation,
      at: START + i * 1_000,
    });
    progress = next.progress;
    return next.tookMs === undefined ? [] : [next.tookMs / 1_000];
  });
}

describe('a change is reported once, with the time since its first observation:', () => {
  test('a new tenant', () => {
    expect(told({ tenant: tenant(1) }, { tenant: tenant(1) }, { tenant: tenant(1, 'True') })).toEqual([2]);
  });

  test('a new generation, including platform faults during its convergence', () => {
    const behind = { generation: 1, plan: 1 };
    expect(
      told(
        { tenant: tenant(1, 'True') },
        { tenant: tenant(2, 'True', behind) },
        { tenant: tenant(2, 'DatabaseUnavailable') },
        { tenant: tenant(2, 'VaultUnavailable') },
        { tenant: tenant(2, 'True') },
        { tenant: tenant(2, 'True') },
      ),
    ).toEqual([3]);
  });

  test('a new revision of the plan', () => {
    expect(
      told(
        { tenant: tenant(1, 'True') },
        { tenant: tenant(1, 'True'), plan: plan(2) },
        { tenant: tenant(1, 'True', { generation: 1, plan: 2 }), plan: plan(2) },
      ),
    ).toEqual([1]);
  });

  test('overlapping changes, as one, from the first of them', () => {
    expect(
      told(
        { tenant: tenant(1, 'True') },
        { tenant: tenant(2, 'True', { generation: 1, plan: 1 }) },
        { tenant: tenant(3, 'True', { generation: 1, plan: 1 }) },
        { tenant: tenant(3, 'True', { generation: 1, plan: 1 }), plan: plan(2) },
        { tenant: tenant(3, 'True', { generation: 3, plan: 2 }), plan: plan(2) },
      ),
    ).toEqual([3]);
  });
});

describe('no convergence is reported for', () => {
  test('a tenant that is converged at its first observation', () => {
    expect(told({ tenant: tenant(4, 'True'), isFromBefore: true }, { tenant: tenant(4, 'True') })).toEqual(
      [],
    );
  });

  test('a Ready condition that flaps without a change', () => {
    const observations = [tenant(1, 'True'), tenant(1, 'VaultRefused'), tenant(1, 'True')];
    expect(told(...observations.map((one) => ({ tenant: one })))).toEqual([]);
  });

  test('a pause and its end without a change', () => {
    expect(
      told(
        { tenant: tenant(1, 'True') },
        { tenant: paused(tenant(1, 'True')) },
        { tenant: paused(tenant(1, 'Paused')) },
        { tenant: tenant(1, 'Paused') },
        { tenant: tenant(1, 'True') },
      ),
    ).toEqual([]);
  });
});

describe('the clock restarts', () => {
  test('at the end of a pause, for changes before and during it', () => {
    expect(
      told(
        { tenant: tenant(1) },
        { tenant: paused(tenant(2)) },
        { tenant: paused(tenant(3, 'Paused')) },
        { tenant: tenant(3, 'Paused') },
        { tenant: tenant(3, 'True') },
      ),
    ).toEqual([1]);
  });

  test('when a missing plan appears', () => {
    expect(
      told(
        { tenant: tenant(1), plan: undefined },
        { tenant: tenant(1, 'PlanNotFound'), plan: undefined },
        { tenant: tenant(1, 'PlanNotFound') },
        { tenant: tenant(1, 'True') },
      ),
    ).toEqual([1]);
  });

  test('when a deleted plan is re-created', () => {
    expect(
      told(
        { tenant: tenant(1, 'True') },
        { tenant: tenant(1, 'PlanNotFound'), plan: undefined },
        { tenant: tenant(1, 'PlanNotFound'), plan: plan(1, 'other') },
        { tenant: tenant(1, 'True'), plan: plan(1, 'other') },
      ),
    ).toEqual([1]);
  });

  test.each(['SlugConflict', 'SuspendedByAdmin', 'Purging'])('with the change that fixes %s', (reason) => {
    expect(
      told(
        { tenant: tenant(1) },
        { tenant: tenant(1, reason) },
        { tenant: tenant(1, reason) },
        { tenant: tenant(2, reason, { generation: 1, plan: 1 }) },
        { tenant: tenant(2, 'True') },
      ),
    ).toEqual([1]);
  });

  test.each(['SlugConflict', 'SuspendedByAdmin', 'Purging'])(
    'never if %s ends without a change',
    (reason) => {
      expect(
        told({ tenant: tenant(1) }, { tenant: tenant(1, reason) }, { tenant: tenant(1, 'True') }),
      ).toEqual([]);
    },
  );
});

describe('the wait of a tenant from before this process counts', () => {
  test('from its creation if it has no status', () => {
    expect(told({ tenant: tenant(2), isFromBefore: true }, { tenant: tenant(2, 'True') })).toEqual([3_601]);
  });

  test('from the start of the process if it has a status', () => {
    expect(
      told(
        { tenant: tenant(2, 'True', { generation: 1, plan: 1 }), isFromBefore: true },
        { tenant: tenant(2, 'True') },
      ),
    ).toEqual([1]);
  });

  test('from the start of the process if its creation time is in the future', () => {
    const { progress } = nextProgress(undefined, {
      tenant: tenant(1),
      plan: plan(),
      at: 0,
      isFromBefore: true,
    });
    expect(progress.since).toBe(0);
  });
});

test('the longest wait is that of the oldest change, and 0 if nothing waits', () => {
  expect(longestWaitMs([{ reached: '1 p 1' }, { since: 4_000 }, { since: 1_000 }], 9_000)).toBe(8_000);
  expect(longestWaitMs([{ reached: '1 p 1' }, {}], 9_000)).toBe(0);
});
