import type { OwnedSlug } from '#core/store/managed-tenants.ts';
import type { TenantDeps } from './tenant-deps.ts';

/** Messages of one transaction of a purge. */
const PURGED_AT_ONCE = 500;
/** A purge yields its worker after this, so that others' changes do not wait for a large tenant. */
const PURGE_SLICE_MS = 5_000;
/** Until calls under way, which a purge waits for, are looked at again. */
export const PURGE_RECHECK_MS = 1_000;

/**
 * Goes on for a while with a purge that has begun; `absent` where none of this owner is under way. The key goes when
 * the rows have gone, and the tenant's own row last: whoever begins again after a crash finds by it what is left to do.
 * The key is that of the tenant whose rows were deleted, and a purge is never taken back: a process that was stopped
 * before it destroys the key destroys no other.
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
