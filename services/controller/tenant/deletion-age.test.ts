import { expect, test } from 'vitest';
import { TenantResource } from '../resources/tenant-resource.ts';
import { oldestDeletionSeconds } from './deletion-age.ts';
import { TENANT_FINALIZER } from './tenant-deps.ts';

const NOW = Date.parse('2026-01-01T01:00:00Z');

function tenant(name: string, metadata: object = {}): TenantResource {
  return TenantResource.parse({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Tenant',
    metadata: {
      name,
      namespace: 'team',
      uid: name,
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      finalizers: [TENANT_FINALIZER],
      ...metadata,
    },
  });
}

test('the age of the oldest deletion is that of the resource that our finalizer has kept longest', () => {
  const tenants = [
    tenant('a'),
    tenant('b', { deletionTimestamp: '2026-01-01T00:50:00Z' }),
    tenant('c', { deletionTimestamp: '2026-01-01T00:40:00Z' }),
    tenant('d', { deletionTimestamp: '2026-01-01T00:10:00Z', finalizers: ['example.com/other'] }),
  ];
  expect(oldestDeletionSeconds(tenants, NOW)).toBe(1_200);
});

test('there is no age without a deletion, or by a clock that is behind', () => {
  expect(oldestDeletionSeconds([tenant('a')], NOW)).toBe(0);
  expect(oldestDeletionSeconds([tenant('a', { deletionTimestamp: '2026-01-01T01:00:05Z' })], NOW)).toBe(0);
});
