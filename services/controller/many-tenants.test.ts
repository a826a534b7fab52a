import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { KeyringError } from '#core/platform/vault/keyring.ts';
import type { ManagedTenantStore, PurgeOutcome, StoredTenant } from '#core/store/tenants/managed-tenants.ts';
import { buildMemoryController } from '#test/support/build-memory-controller.ts';
import { createMemoryKube } from '#test/support/memory-kube.ts';
import { writtenLimits } from './resources/limit-fields.ts';
import { PLANS, TENANTS } from './resources/kube-resources.ts';
import type { PlanResource } from './resources/plan-resource.ts';
import { TenantResource } from './resources/tenant-resource.ts';
import { TENANT_FINALIZER } from './tenant/tenant-deps.ts';
import { wantedTenant } from './tenant/wanted-tenant.ts';

const QUERY_MS = 2;
const VAULT_DEADLINE_MS = 5_000;
/** From the end of a tenant's intake until no api has a cached copy of it. */
const DRAIN_MS = 10_000;
const CREATED_AT = '2026-01-01T00:00:00Z';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A controller that leads, over this many applied tenants in a cluster, a database and a Vault in memory. */
async function setup(count: number, spec: object = {}) {
  const kube = createMemoryKube();
  const stored = new Map<string, StoredTenant>();
  const purging = new Map<string, number>();
  const applied = new Map<string, number>();
  const calls = { find: 0, slices: 0, keys: 0 };
  let isVaultHanging = false;

  const resource = (
    name: string,
    fields: { namespace?: string; generation?: number; spec?: object } = {},
  ): TenantResource =>
    TenantResource.parse({
      apiVersion: 'despatch.dev/v1alpha1',
      kind: 'Tenant',
      metadata: {
        name,
        namespace: fields.namespace ?? 'team',
        uid: name,
        generation: fields.generation ?? 1,
        resourceVersion: '1',
        creationTimestamp: CREATED_AT,
        finalizers: [TENANT_FINALIZER],
      },
      spec: { ...spec, ...fields.spec },
      status: {
        observedGeneration: 1,
        plan: { name: 'free', generation: 1 },
        conditions: [
          {
            type: 'Ready',
            status: 'True',
            reason: 'Reconciled',
            message: '',
            observedGeneration: 1,
            lastTransitionTime: CREATED_AT,
          },
        ],
      },
    });
  const plan = {
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Plan',
    metadata: { name: 'free', uid: 'p', generation: 1, resourceVersion: '1', creationTimestamp: CREATED_AT },
    spec: { displayName: 'Free', limits: writtenLimits(BUILT_IN_PLANS.free) },
  } as unknown as PlanResource;
  const { uid } = kube.put(PLANS, plan).metadata;
  const revision = { name: 'free', uid, generation: 1, limits: BUILT_IN_PLANS.free };
  for (let i = 0; i < count; i += 1) {
    const tenant = TenantResource.parse(kube.put(TENANTS, resource(`t${i}`)));
    const wanted = wantedTenant(tenant, revision);
    stored.set(wanted.slug, {
      ...wanted,
      status: 'active',
      suspensionReason: null,
      suspendedBy: null,
      ownerUid: wanted.uid,
      ownerRef: wanted.ref,
      ownerCreatedAt: new Date(CREATED_AT),
      ownerGeneration: 1,
      displayName: wanted.name,
      namedOwners: wanted.owners,
    });
  }

  const store: Partial<ManagedTenantStore> = {
    async find(slug) {
      calls.find += 1;
      await after(QUERY_MS);
      return stored.get(slug);
    },
    async apply({ slug, id }) {
      await after(QUERY_MS);
      applied.set(slug, Date.now());
      return { outcome: 'applied', id };
    },
    async beginPurge({ slug }) {
      await after(QUERY_MS);
      const tenant = stored.get(slug);
      if (tenant === undefined) return undefined;
      stored.set(slug, { ...tenant, status: 'deleting' });
      if (!purging.has(slug)) purging.set(slug, Date.now());
      return tenant.id;
    },
    async purgeSome({ slug }) {
      calls.slices += 1;
      await after(QUERY_MS);
      const since = purging.get(slug) ?? Date.now();
      const outcome: PurgeOutcome = Date.now() - since < DRAIN_MS ? 'draining' : 'empty';
      return { outcome, deleted: 0, id: stored.get(slug)?.id ?? null };
    },
    async endPurge({ slug }) {
      await after(QUERY_MS);
      return stored.delete(slug);
    },
    outdatedCiphertexts: async () => [],
    tenantsToPurge: async () => [],
  };
  const answer = async (): Promise<void> => {
    calls.keys += 1;
    await after(isVaultHanging ? VAULT_DEADLINE_MS : QUERY_MS);
    if (isVaultHanging) throw new KeyringError('unavailable', 'no answer', { fault: 'deadline' });
  };
  const key = { name: 'k', latestVersion: 1, rotatedAt: new Date() };
  const controller = buildMemoryController(
    {
      kube: kube.client,
      store: store as ManagedTenantStore,
      keys: {
        ensure: async () => {
          await answer();
          return { ...key, made: false };
        },
        rotate: async () => {
          await answer();
          return { ...key, rotatedAt: new Date() };
        },
        destroy: answer,
      } as never,
    },
    4,
  );
  const end = new AbortController();
  const reflecting = Promise.all(controller.reflectors.map((one) => one.run(end.signal)));
  await vi.advanceTimersByTimeAsync(100);

  return {
    stored,
    calls,
    hangVault: (): void => void (isVaultHanging = true),
    start: (): void => {
      for (const loop of controller.loops) loop.start(end.signal);
    },
    /** Changes the limits of the plan that all tenants follow. */
    changePlan(): void {
      const metadata = { ...plan.metadata, generation: 2 };
      kube.put(PLANS, { ...plan, metadata, spec: { ...plan.spec, displayName: 'Changed' } } as PlanResource);
    },
    /** Changes a setting of so many other tenants of a namespace. */
    changeMany(count: number, namespace: string): void {
      for (let i = 0; i < count; i += 1)
        kube.put(TENANTS, resource(`crowd${i}`, { namespace, spec: { displayName: 'Changed' } }));
    },
    /** Changes a tenant. @returns when the change was stored, in milliseconds from now. */
    async suspend(name: string): Promise<number> {
      const from = Date.now();
      applied.delete(name);
      kube.put(TENANTS, resource(name, { generation: 2, spec: { state: 'Suspended' } }));
      while (!applied.has(name) && Date.now() - from < 3_600_000) await vi.advanceTimersByTimeAsync(500);
      return (applied.get(name) ?? Infinity) - from;
    },
    remove(name: string): void {
      const before = kube.read(TENANTS, `team/${name}`);
      if (before === undefined) throw new Error(`no tenant ${name}`);
      const metadata = { ...before.metadata, deletionTimestamp: new Date().toISOString() };
      kube.put(TENANTS, { ...before, metadata });
    },
    left: (): number => [...(controller.reflectors[0]?.cache.keys() ?? [])].length,
    async [Symbol.asyncDispose]() {
      end.abort();
      const stopped = Promise.all([...controller.loops.map((loop) => loop.stop()), reflecting]);
      await vi.advanceTimersByTimeAsync(10_000);
      await stopped;
    },
  };
}

test('while Vault hangs, changes do not wait behind the resync of a thousand unchanged tenants', async () => {
  await using b = await setup(1_000);
  b.hangVault();
  b.start();
  expect(await b.suspend('t999')).toBeLessThan(15_000);
  await vi.advanceTimersByTimeAsync(300_000);
  expect(await b.suspend('t998')).toBeLessThan(5_000);
});

test('a suspension does not wait until a change of its plan has reached thousands of other tenants', async () => {
  await using b = await setup(3_000);
  b.start();
  await vi.advanceTimersByTimeAsync(30_000);
  b.changePlan();
  expect(await b.suspend('t2999')).toBeLessThanOrEqual(500);
});

test('a suspension does not wait for the changes of thousands of tenants in another namespace', async () => {
  await using b = await setup(1);
  b.start();
  await vi.advanceTimersByTimeAsync(1_000);
  b.changeMany(3_000, 'crowd');
  expect(await b.suspend('t0')).toBeLessThanOrEqual(500);
});

test('a suspension does not wait until a new leader has looked at thousands of tenants', async () => {
  await using b = await setup(3_000);
  b.start();
  expect(await b.suspend('t2999')).toBeLessThanOrEqual(500);
});

test('the purge of a thousand tenants takes a few queries for each', async () => {
  const count = 1_000;
  await using b = await setup(count, { deletionPolicy: 'Purge' });
  b.start();
  await vi.advanceTimersByTimeAsync(60_000);
  b.calls.find = 0;
  for (let i = 0; i < count; i += 1) b.remove(`t${i}`);
  const from = Date.now();
  // A few slices per tenant: some find it draining, the last one ends it.
  const until = from + DRAIN_MS + 20 * QUERY_MS * count;
  while (b.left() > 0 && Date.now() < until) await vi.advanceTimersByTimeAsync(1_000);
  expect(b.left()).toBe(0);
  expect(b.calls.find).toBeLessThan(count + 2.1 * b.calls.slices);
});
