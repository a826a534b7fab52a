import { expect, test } from 'vitest';
import { conditionsOf } from '../resources/own-conditions.ts';
import { TenantResource } from '../resources/tenant-resource.ts';
import { notReady } from './tenant-findings.ts';
import { writeNotReady, writeStatus } from './write-status.ts';

const READY = { type: 'Ready', status: 'True', reason: 'Reconciled', message: '' } as const;
const APPLIED = { ...READY, type: 'Applied' } as const;
const BILLED = { ...READY, type: 'Billed' } as const;
const NOW = new Date('2026-01-01T00:00:00Z');

test("another writer's condition causes no write and is not taken over", async () => {
  const tenant = TenantResource.parse({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Tenant',
    metadata: {
      name: 'acme',
      namespace: 'shop',
      uid: 'u',
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: {},
    status: { observedGeneration: 1, conditions: conditionsOf([BILLED, READY, APPLIED], undefined, 1, NOW) },
  });
  const written: (readonly string[] | undefined)[] = [];
  const deps = {
    now: () => NOW,
    resources: {
      addFinalizer: () => Promise.reject(new Error('not expected')),
      removeFinalizer: () => Promise.reject(new Error('not expected')),
      async applyStatus(_tenant: unknown, { conditions }: NonNullable<TenantResource['status']>) {
        written.push(conditions?.map(({ type, status }) => `${type} ${status}`));
      },
    },
  };
  const { signal } = new AbortController();
  await writeStatus(deps, tenant, { facts: {}, findings: [READY, APPLIED] }, signal);
  expect(written).toEqual([]);
  await writeNotReady(deps, tenant, notReady('Paused', 'by its annotation'), signal);
  expect(written).toEqual([['Ready False', 'Applied True']]);
});
