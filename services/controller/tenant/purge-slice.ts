import type { OwnedSlug } from '#core/store/managed-tenants.ts';
import type { TenantDeps } from './tenant-deps.ts';

/** Messages deleted per transaction of a purge. */
const PURGED_AT_ONCE = 500;
/** A purge yields its worker after this time, so that changes of other tenants do not wait for a large purge. */
const PURGE_SLICE_MS = 5_000;
/** Delay before the purge checks again for what it has to wait for: calls in flight, and copies of the tenant in caches. */
export const PURGE_RECHECK_MS = 1_000;

/**
 * Continues a purge that has begun, for a limited time; `absent` when this owner has none in progress. The key is destroyed
 * after the rows are deleted, and the tenant's own row is deleted last: after a crash it shows what is left to do. The key
 * is that of the tenant whose rows were deleted, and a purge cannot be canceled, so a process that is suspended just before
 * destroying the key can never destroy another tenant's.
 */
export async function continuePurge(
  { store, keys, notify, now }: Pick<TenantDeps, 'store' | 'keys' | 'notify' | 'now'>,
  owned: OwnedSlug,
): Promise<'done' | 'draining' | 'deleting' | 'absent'> {
  const until = now().getTime() + PURGE_SLICE_MS;
  while (now().getTime() < until) {
    const { outcome, id } = await store.purgeSome(owned, PURGED_AT_ONCE);
    if (id === null || outcome === 'absent') return 'absent';
    if (outcome === 'draining') return 'draining';
    if (outcome === 'empty') {
      await keys.destroy(id);
      if (await store.endPurge(owned)) {
        notify(id);
        return 'done';
      }
    }
  }
  return 'deleting';
}
