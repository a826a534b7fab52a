import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import type { ManagedTenantStore, StoredTenant } from '#core/store/tenants/managed-tenants.ts';
import { buildMemoryController } from '#test/support/build-memory-controller.ts';
import { createMemoryKube } from '#test/support/memory-kube.ts';
import type { KubeClient } from './kube/kube-client.ts';
import { PLANS, TENANTS } from './resources/kube-resources.ts';
import { writtenLimits } from './resources/limit-fields.ts';
import { TenantResource } from './resources/tenant-resource.ts';
import { TENANT_FINALIZER } from './tenant/tenant-deps.ts';

const CREATED_AT = '2026-01-01T00:00:00Z';
const PLAN = {
  metadata: { name: 'free', generation: 1, creationTimestamp: CREATED_AT },
  spec: { displayName: 'Free', limits: writtenLimits(BUILT_IN_PLANS.free) },
};

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A controller of one Tenant on the plan `free`, whose events about Tenants can be held back. */
async function setup() {
  const kube = createMemoryKube();
  const held: (() => void)[] = [];
  let isHolding = false;
  const watch: KubeClient['watch'] = (resource, options) =>
    kube.client.watch(resource, {
      ...options,
      onEvent(event) {
        if (isHolding && resource === TENANTS) held.push(() => options.onEvent(event as never));
        else options.onEvent(event as never);
      },
    });
  const stored = new Map<string, StoredTenant>();
  const store: Partial<ManagedTenantStore> = {
    find: async (slug) => stored.get(slug),
    async apply({ createdAt, uid, ref, generation, name, suspension, owners, ...wanted }) {
      const before = stored.get(wanted.slug);
      stored.set(wanted.slug, {
        ...wanted,
        id: before?.id ?? wanted.id,
        status: suspension === null ? 'active' : 'suspended',
        suspensionReason: suspension,
        suspendedBy: null,
        ownerUid: uid,
        ownerRef: ref,
        ownerCreatedAt: new Date(createdAt),
        ownerGeneration: generation,
        displayName: name,
        namedOwners: owners,
      });
      return { outcome: 'applied', id: wanted.id };
    },
    outdatedCiphertexts: async () => [],
  };
  const key = { name: 'k', latestVersion: 1, rotatedAt: new Date(), made: false };
  const controller = buildMemoryController(
    {
      kube: { ...kube.client, watch },
      store: store as ManagedTenantStore,
      keys: { ensure: async () => key } as never,
    },
    1,
  );
  kube.put(PLANS, PLAN);
  const metadata = {
    name: 'acme',
    namespace: 'team',
    generation: 1,
    creationTimestamp: CREATED_AT,
    finalizers: [TENANT_FINALIZER],
  };
  kube.put(
    TENANTS,
    TenantResource.parse({
      apiVersion: 'despatch.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { ...metadata, uid: 'u', resourceVersion: '1' },
    }),
  );
  const end = new AbortController();
  const reflecting = Promise.all(controller.reflectors.map((one) => one.run(end.signal)));
  await vi.advanceTimersByTimeAsync(100);
  for (const loop of controller.loops) loop.start(end.signal);
  await vi.advanceTimersByTimeAsync(100);
  return {
    kube,
    hold: (): void => void (isHolding = true),
    release(): void {
      isHolding = false;
      for (const send of held.splice(0)) send();
    },
    ready(): string | undefined {
      const { status } = kube.read(TENANTS, 'team/acme') as TenantResource;
      const ready = status?.conditions?.find(({ type }) => type === 'Ready');
      return `${ready?.status} ${ready?.reason}`;
    },
    async [Symbol.asyncDispose]() {
      end.abort();
      const stopped = Promise.all([...controller.loops.map((loop) => loop.stop()), reflecting]);
      await vi.advanceTimersByTimeAsync(10_000);
      await stopped;
    },
  };
}

test('a Tenant is Ready again although the event about its not being so came late', async () => {
  await using parts = await setup();
  expect(parts.ready()).toBe('True Reconciled');
  parts.hold();
  parts.kube.remove(PLANS, 'free');
  await vi.advanceTimersByTimeAsync(100);
  expect(parts.ready()).toBe('False PlanNotFound');
  parts.kube.put(PLANS, PLAN);
  await vi.advanceTimersByTimeAsync(100);
  parts.release();
  await vi.advanceTimersByTimeAsync(100);
  expect(parts.ready()).toBe('True Reconciled');
});
