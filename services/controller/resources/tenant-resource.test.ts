import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { normalAddress } from '#core/domain/recipient/mailbox.ts';
import { CONDITION_ROWS, TENANT_ROWS, TENANT_STATUS_ROWS } from '#test/suites/custom-resource-rows.ts';
import { TenantResource, type NewTenantResource } from './tenant-resource.ts';

/** Metadata that the API server adds to every object. */
const META = { uid: 'u', generation: 1, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };

const tenant = (fields: object = {}): unknown => ({
  apiVersion: 'despatch.dev/v1alpha1',
  kind: 'Tenant',
  metadata: { name: 'acme', ...META },
  ...fields,
});

// test/integration/controller/crds.test.ts sends the same rows to a real API server.
test.each(TENANT_ROWS)(
  "the zod schema gives the API server's verdict on $what",
  ({ name = 'acme', spec, refused }) => {
    const parsed = TenantResource.safeParse(tenant({ metadata: { name, ...META }, spec }));
    expect(parsed.success).toBe(refused === undefined);
  },
);

test.each([...CONDITION_ROWS, ...TENANT_STATUS_ROWS])(
  "the zod schema gives the API server's verdict on a status with $what",
  ({ status, refused }) => {
    // Only the API server checks that the keys of a map list are unique.
    if (refused?.includes('Duplicate') === true) return;
    expect(TenantResource.safeParse(tenant({ status })).success).toBe(refused === undefined);
  },
);

test("an owner's address is accepted exactly if the API accepts it, its domain being a host name with a dot", () => {
  const part = (...characters: string[]) =>
    fc.string({ unit: fc.constantFrom(...characters), minLength: 1, maxLength: 8 });
  const address = fc
    .tuple(
      part('a', 'B', '7', '-', '.', '@', '_', '&', '~', '/', ',', ':', '<'),
      part('a', 'B', '7', '-', '.'),
    )
    .map(([local, domain]) => `${local}@${domain}.example`);
  fc.assert(
    fc.property(address, (email) => {
      const spec = { owners: [{ email }] };
      expect(TenantResource.safeParse(tenant({ spec })).success).toBe(normalAddress(email) !== undefined);
    }),
    { numRuns: 2_000 },
  );
});

test('absent fields get the same defaults as in the API server', () => {
  expect(TenantResource.parse(tenant()).spec).toEqual({
    planRef: { name: 'free' },
    state: 'Active',
    encryption: { keyRotationPeriodDays: 90 },
    deletionPolicy: 'Retain',
  });
});

test('an object of another kind or version is rejected', () => {
  expect(TenantResource.safeParse(tenant({ kind: 'Plan' })).success).toBe(false);
  expect(TenantResource.safeParse(tenant({ apiVersion: 'despatch.dev/v1' })).success).toBe(false);
});

test('NewTenantResource requires no more fields than the cluster does', () => {
  const least: NewTenantResource = {
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name: 'acme', namespace: 'customers' },
  };
  expect(TenantResource.safeParse({ ...least, metadata: { ...least.metadata, ...META } }).success).toBe(true);
});
