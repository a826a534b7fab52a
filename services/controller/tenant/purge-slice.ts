import type { OwnedSlug } from '#core/store/managed-tenants.ts';
import type { TenantDeps } from './tenant-deps.ts';

/** Messages deleted per transaction of a purge. */
const PURGED_AT_ONCE = 500;
/** A purge yields its worker after this time, so that changes of other tenants do not wait for a large purge. */
const PURGE_SLICE_MS = 5_000;
/** Delay before the purge checks again for what it has to wait for: calls in flight, and copies of the tenant in caches. */
export const PURGE_RECHECK_MS = 1_000;
/** A purge that has not asked again for this time, for example because its resource is paused, gives its turn to the next one. */
const TURN_MS = 10 * PURGE_RECHECK_MS;

/**
 * - `waiting`: another purge has its turn.
 * - `draining`: calls are under way, or an api may have a cached copy of the tenant.
 * - `deleting`: more is left.
 * - `absent`: this owner has no purge in progress.
 */
export type PurgeProgress = 'done' | 'waiting' | 'draining' | 'deleting' | 'absent';

/** Continues a purge that has begun, for a limited time. */
export type PurgeSlice = (owned: OwnedSlug) => Promise<PurgeProgress>;

type PurgeSliceDeps = Pick<TenantDeps, 'store' | 'keys' | 'notify' | 'now'>;

/**
 * Creates the slices of a process's purges: one at a time, in turn, so that many purges neither occupy all workers nor take the
 * database from other work.
 */
export function createPurgeSlice(deps: PurgeSliceDeps): PurgeSlice {
  /** When each purge that waits asked last, by slug; the first one has the next turn. */
  const line = new Map<string, number>();
  let isBusy = false;

  function hasTurn(slug: string): boolean {
    const now = deps.now().getTime();
    line.set(slug, now);
    for (const [one, askedAt] of line) if (now - askedAt > TURN_MS) line.delete(one);
    const [next] = line.keys();
    return !isBusy && next === slug;
  }

  return async (owned) => {
    if (!hasTurn(owned.slug)) return 'waiting';
    line.delete(owned.slug);
    isBusy = true;
    try {
      return await purgeForAWhile(deps, owned);
    } finally {
      isBusy = false;
    }
  };
}

/**
 * The key is destroyed after the rows are deleted, and the tenant's own row is deleted last: after a crash it shows what is left to
 * do. The key is that of the tenant whose rows were deleted, and a purge cannot be canceled, so a process that is suspended just
 * before destroying the key can never destroy another tenant's.
 */
async function purgeForAWhile(
  { store, keys, notify, now }: PurgeSliceDeps,
  owned: OwnedSlug,
): Promise<PurgeProgress> {
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
