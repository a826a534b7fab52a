import { describe, expect, test } from 'vitest';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import type { StoredTenant, WantedTenant } from '#core/store/tenants/managed-tenants.ts';
import { TenantResource } from '../resources/tenant-resource.ts';
import { differences, lastKnownPlan, suspensionOf, wantedTenant } from './wanted-tenant.ts';

const UID = '0b0f9d3c-3f0e-4b51-9c0e-3c1c0f6a7d10';
const PLAN = { name: 'growth', uid: 'plan-uid', generation: 3, limits: BUILT_IN_PLANS.growth };

function resource(spec: object = {}, metadata: object = {}): TenantResource {
  return TenantResource.parse({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Tenant',
    metadata: {
      name: 'acme',
      namespace: 'team-a',
      uid: UID,
      generation: 2,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...metadata,
    },
    spec,
  });
}

function storedAs(wanted: WantedTenant): StoredTenant {
  return {
    id: wanted.id,
    plan: wanted.plan,
    status: wanted.suspension === null ? 'active' : 'suspended',
    suspensionReason: wanted.suspension,
    suspendedBy: null,
    ownerUid: wanted.uid,
    ownerRef: wanted.ref,
    ownerCreatedAt: new Date(wanted.createdAt),
    ownerGeneration: wanted.generation,
    planUid: wanted.planUid,
    planGeneration: wanted.planGeneration,
    limits: wanted.limits,
    overrides: wanted.overrides,
    displayName: wanted.name,
    namedOwners: wanted.owners,
  };
}

describe('the wanted state', () => {
  test("of a minimal resource is an active tenant named after it, with its plan's limits", () => {
    expect(wantedTenant(resource(), PLAN)).toMatchObject({
      id: UID,
      slug: 'acme',
      name: 'acme',
      plan: 'growth',
      limits: BUILT_IN_PLANS.growth,
      overrides: {},
      suspension: null,
      ref: 'team-a/acme',
      generation: 2,
      planGeneration: 3,
      owners: [],
    });
  });

  test('takes a limit from the override, else the plan, else the free plan', () => {
    const wanted = wantedTenant(resource({ limits: { messagesPerDay: 7 } }), {
      ...PLAN,
      limits: { inFlightMax: 9 },
    });
    expect(wanted.limits).toEqual({ ...BUILT_IN_PLANS.free, inFlightMax: 9, messagesPerDay: 7 });
    expect(wanted.overrides).toEqual({ messagesPerDay: 7 });
  });

  test.each([
    [{}, null],
    [{ state: 'Suspended' }, 'manual'],
    [{ state: 'Suspended', suspendReason: 'abuse' }, 'abuse'],
  ])('spec %o gives the suspension %s', (spec, expected) => {
    expect(suspensionOf(resource(spec))).toBe(expected);
  });
});

describe('the differences', () => {
  const wanted = wantedTenant(
    resource({ owners: [{ email: 'ann@example.org' }], limits: { apiKeysMax: 3 } }),
    PLAN,
  );

  test('are empty if all is as wanted, whatever the stored order of limits', () => {
    const reversed = Object.fromEntries(Object.entries(wanted.limits).toReversed());
    expect(differences({ ...storedAs(wanted), limits: reversed }, wanted)).toEqual({
      fields: [],
      isDrift: false,
    });
  });

  test('are the whole tenant if none is stored', () => {
    expect(differences(undefined, wanted)).toEqual({ fields: ['tenant'], isDrift: false });
  });

  test.each<[string, Partial<StoredTenant>, string[], boolean]>([
    ['a plan that was changed in the database', { plan: 'free' }, ['plan'], true],
    [
      'a limit that was changed in the database',
      { limits: { ...wanted.limits, inFlightMax: 1 } },
      ['limits'],
      true,
    ],
    ['an unknown limit', { limits: { ...wanted.limits, extra: 1 } }, ['limits'], true],
    ['missing limits', { limits: null }, ['limits'], true],
    ['a missing override', { overrides: {} }, ['overrides'], true],
    [
      'a suspension that the resource does not declare',
      { status: 'suspended', suspensionReason: 'billing' },
      ['suspension'],
      true,
    ],
    ['an older generation', { ownerGeneration: 1, plan: 'free' }, ['plan', 'revision'], false],
    ['an older plan', { planGeneration: 2, limits: BUILT_IN_PLANS.free }, ['limits', 'revision'], false],
    ['a plan of another UID', { planUid: 'other' }, ['revision'], false],
    [
      'a resource of another UID',
      { ownerUid: 'other', status: 'suspended', suspensionReason: 'manual' },
      ['suspension', 'revision'],
      false,
    ],
    [
      'a retained tenant',
      { ownerUid: null, status: 'suspended', suspensionReason: 'manual' },
      ['suspension', 'revision'],
      false,
    ],
    ['another display name', { displayName: 'Acme' }, ['displayName'], false],
    ['an owner not named before', { namedOwners: [] }, ['owners'], false],
  ])('%s', (_what, stored, fields, isDrift) => {
    expect(differences({ ...storedAs(wanted), ...stored }, wanted)).toEqual({ fields, isDrift });
  });

  test('are empty while the plan is missing, because the last known one applies', () => {
    const stored = storedAs(wanted);
    const goesOn = wantedTenant(
      resource({ owners: [{ email: 'ann@example.org' }], limits: { apiKeysMax: 3 } }),
      lastKnownPlan(stored),
    );
    expect(differences(stored, goesOn).fields).toEqual([]);
  });
});
