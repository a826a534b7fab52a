import { expect, test } from 'vitest';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createDeletionReconciler } from './purge-deleted.ts';
import { TENANT_FINALIZER, type TenantDeps } from './tenant-deps.ts';

/** Runs a pass over a tenant that is `deleting`, whose resource exists and has these finalizers. @returns the slugs it purged. */
async function passWith(finalizers: readonly string[] | undefined, uid = 'u'): Promise<string[]> {
  const purged: string[] = [];
  const metadata = { uid, deletionTimestamp: '2026-02-01T00:00:00Z', finalizers };
  const stored = { id: 'x', status: 'deleting', ownerUid: 'u', ownerRef: 'team/acme' };
  const reconcile = createDeletionReconciler({
    store: { find: async () => stored } as unknown as TenantDeps['store'],
    tenants: { get: (key: string) => (key === 'team/acme' ? { metadata } : undefined) } as never,
    purges: {
      isWaiting: () => false,
      async slice({ slug }) {
        purged.push(slug);
        return 'done';
      },
    },
    requestPass: () => undefined,
  });
  await reconcile('acme', AbortSignal.timeout(1_000), silentLogger);
  return purged;
}

test.each([
  ['no finalizer', undefined],
  ["only others' finalizers", ['foregroundDeletion', 'example.com/keep']],
])('a purge continues although its resource still exists, with %s', async (_what, finalizers) => {
  expect(await passWith(finalizers)).toEqual(['acme']);
});

test('a resource with our finalizer continues its purge itself', async () => {
  expect(await passWith(['example.com/keep', TENANT_FINALIZER])).toEqual([]);
});

test('a later resource of the name does not continue the purge', async () => {
  expect(await passWith([TENANT_FINALIZER], 'another')).toEqual(['acme']);
});
