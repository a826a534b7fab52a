import { expect, test } from 'vitest';
import { isToBeReady } from './is-to-be-ready.ts';
import { TENANT_FINALIZER } from './tenant-deps.ts';

const OTHER = 'backup.example/finalizer';

function isFault(reason: string, finalizers: readonly string[], isDeleted = true): boolean {
  const about = { message: '', observedGeneration: 1, lastTransitionTime: '2026-01-01T00:00:00Z' };
  return isToBeReady({
    metadata: {
      finalizers: [...finalizers],
      ...(isDeleted ? { deletionTimestamp: '2026-02-01T00:00:00Z' } : {}),
    },
    status: { conditions: [{ type: 'Ready', status: 'False', reason, ...about }] },
  });
}

test.each([
  ['waits for the purge of an earlier tenant', 'Purging', [TENANT_FINALIZER], false],
  ['is deleted while the database is away', 'DatabaseUnavailable', [TENANT_FINALIZER, OTHER], true],
])('a resource that %s counts', (_what, reason, finalizers, isDeleted) => {
  expect(isFault(reason, finalizers, isDeleted)).toBe(true);
});

test.each([
  ['is being purged', 'Purging', [TENANT_FINALIZER]],
  ['only others keep', 'Deleted', [OTHER]],
])('a deleted resource that %s does not count', (_what, reason, finalizers) => {
  expect(isFault(reason, finalizers)).toBe(false);
});
