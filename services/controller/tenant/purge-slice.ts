import type { MonotonicClock } from '#core/domain/clock.ts';
import type { OwnedSlug } from '#core/store/tenants/managed-tenants.ts';
import { createPurgeTurns } from './purge-turns.ts';
import type { TenantDeps } from './tenant-deps.ts';

/** Messages deleted per transaction of a purge. */
const PURGED_AT_ONCE = 500;
/** A purge yields its worker after this time, so that changes of other tenants do not wait for a large purge. */
const PURGE_SLICE_MS = 5_000;
/** Delay before the purge checks again for what it has to wait for: calls in flight, and copies of the tenant in caches. */
const PURGE_RECHECK_MS = 1_000;
/**
 * Delay before a purge that waits for its turn asks again unasked. It is woken for its turn; this only finds out that another purge
 * did not use its own.
 */
const PURGE_WAIT_MS = 60_000;

/**
 * - `waiting`: another purge has its turn.
 * - `draining`: calls are under way, or an api may have a cached copy of the tenant.
 * - `deleting`: more is left.
 * - `absent`: this owner has no purge in progress.
 */
export type PurgeProgress = 'done' | 'waiting' | 'draining' | 'deleting' | 'absent';

/**
 * The purges of a process: one slice at a time, in turn, so that many purges neither occupy all workers nor take the database from
 * other work.
 */
export type Purges = {
  /** Whether another purge has the turn, so that a slice would be refused now. */
  readonly isWaiting: (uid: string) => boolean;
  /**
   * Continues a purge that has begun, for a limited time.
   * @param wake requests the pass that makes the next slice; called after `waiting`, when the purge has its turn.
   */
  readonly slice: (owned: OwnedSlug, wake: () => void) => Promise<PurgeProgress>;
};

export type PurgeDeps = Pick<TenantDeps, 'store' | 'keys' | 'notify'> & {
  readonly monotonicMs: MonotonicClock;
};

export function createPurges(deps: PurgeDeps): Purges {
  const turns = createPurgeTurns();
  return {
    isWaiting: turns.isWaiting,
    async slice(owned, wake) {
      if (!turns.take(owned.uid, wake)) return 'waiting';
      try {
        return await purgeForAWhile(deps, owned);
      } finally {
        turns.end();
      }
    },
  };
}

/** Returns when to make the next pass after a slice that left something to do. */
export function nextSliceMs(progress: 'waiting' | 'draining' | 'deleting'): number {
  return { waiting: PURGE_WAIT_MS, draining: PURGE_RECHECK_MS, deleting: 0 }[progress];
}

/**
 * The key is destroyed after the rows are deleted, and the tenant's own row is deleted last: after a crash it shows what is left to
 * do. The key is that of the tenant whose rows were deleted, and a purge cannot be canceled, so a process that is suspended just
 * before destroying the key can never destroy another tenant's.
 */
async function purgeForAWhile(
  { store, keys, notify, monotonicMs }: PurgeDeps,
  owned: OwnedSlug,
): Promise<PurgeProgress> {
  const until = monotonicMs() + PURGE_SLICE_MS;
  while (monotonicMs() < until) {
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
