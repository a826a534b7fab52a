import { expect, test } from 'vitest';
import { keyOf, pathOf, refOf, type KubeResource } from './kube-object.ts';
import { microTime } from './kube-time.ts';

const TENANTS: KubeResource = {
  group: 'despatch.dev',
  version: 'v1alpha1',
  plural: 'tenants',
  kind: 'Tenant',
  namespaced: true,
};

test('a name leads to no other path, and a key is taken apart as it was put together', () => {
  expect(pathOf(TENANTS, { namespace: 'a', name: 'b/../../c' })).toBe(
    `/apis/despatch.dev/v1alpha1/namespaces/a/tenants/b%2F..%2F..%2Fc`,
  );
  expect(() => pathOf(TENANTS, { namespace: '..', name: 'b' })).toThrow(RangeError);
  for (const ref of [{ namespace: 'acme', name: 'shop' }, { name: 'free' }])
    expect(refOf(keyOf({ metadata: ref }))).toEqual(ref);
});

test('times have the six digits that leases and events need', () => {
  expect(microTime(Date.UTC(2026, 0, 2, 3, 4, 5, 678))).toBe('2026-01-02T03:04:05.678000Z');
});
