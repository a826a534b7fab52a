import type { Reconcile, ReconcileResult } from '../runtime/controller-loop.ts';
import { PURGE_RECHECK_MS } from './purge-slice.ts';
import type { TenantDeps } from './tenant-deps.ts';

/**
 * Purges a tenant that no resource purges, identified by its slug: it was deleted through the API, or its resource was removed by
 * force in the middle of the purge. One slice per pass, repeated until nothing is left. A resource that still exists continues its
 * purge itself, because it reports the progress.
 */
export function createDeletionReconciler({
  store,
  tenants,
  purgeSlice,
}: Pick<TenantDeps, 'store' | 'tenants' | 'purgeSlice'>): Reconcile {
  return async (slug, _signal, log): Promise<ReconcileResult> => {
    const stored = await store.find(slug);
    if (stored?.status !== 'deleting' || stored.ownerUid === null) return {};
    const { id, ownerUid: uid, ownerRef } = stored;
    if (ownerRef !== null && tenants.get(ownerRef)?.metadata.uid === uid) return {};
    switch (await purgeSlice({ slug, uid })) {
      case 'waiting':
      case 'draining':
        return { requeueAfterMs: PURGE_RECHECK_MS };
      case 'deleting':
        return { requeueAfterMs: 0 };
      case 'done':
        log.info({ tenantId: id }, 'Purged a deleted tenant');
        return {};
      case 'absent':
        return {};
    }
  };
}
