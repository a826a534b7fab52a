import { expect, test } from 'vitest';
import { TenantResource } from '../resources/tenant-resource.ts';
import type { TenantStatus } from '../resources/tenant-status.ts';
import { finalizeTenant } from './finalize-tenant.ts';
import { TENANT_FINALIZER, type TenantDeps } from './tenant-deps.ts';

const OTHER = 'backup.example/finalizer';

/** A deleted resource whose tenant is gone, in a cluster where so many writes of a status fail. */
function setup(failures: number, finalizers: readonly string[]) {
  const ready = { type: 'Ready', status: 'True', reason: 'Reconciled', message: '', observedGeneration: 1 };
  let resource = TenantResource.parse({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Tenant',
    metadata: {
      name: 'acme',
      namespace: 'team',
      uid: 'u',
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      deletionTimestamp: '2026-02-01T00:00:00Z',
      finalizers,
    },
    spec: {},
    status: { conditions: [{ ...ready, lastTransitionTime: '2026-01-01T00:00:00Z' }] },
  });
  const writes: string[] = [];
  const deps = {
    store: { find: async () => undefined, retain: async () => undefined },
    purges: { isWaiting: () => false },
    resources: {
      async removeFinalizer() {
        writes.push('finalizer');
        const left = resource.metadata.finalizers?.filter((name) => name !== TENANT_FINALIZER);
        resource = { ...resource, metadata: { ...resource.metadata, finalizers: left ?? [] } };
        return resource;
      },
      async applyStatus(_resource: TenantResource, status: TenantStatus) {
        writes.push('status');
        if ((failures -= 1) >= 0) throw new Error('conflict');
        resource = { ...resource, status };
      },
    },
    now: () => new Date('2026-02-01T00:00:01Z'),
  } as unknown as TenantDeps;
  return {
    writes,
    pass: () => finalizeTenant(deps, resource, new AbortController().signal),
    reasons: () => resource.status?.conditions?.map(({ reason }) => reason),
  };
}

test('a resource that others keep is shown as deleted, also if that can be written only later', async () => {
  const { pass, reasons, writes } = setup(1, [TENANT_FINALIZER, OTHER]);
  await expect(pass()).rejects.toThrow('conflict');
  expect(reasons()).toEqual(['Reconciled']);
  expect(await pass()).toEqual({});
  expect(reasons()).toEqual(['Deleted']);
  await pass();
  expect(writes).toEqual(['finalizer', 'status', 'status']);
});

test('a resource that nobody keeps gets no status', async () => {
  const { pass, writes } = setup(0, [TENANT_FINALIZER]);
  await pass();
  expect(writes).toEqual(['finalizer']);
});
