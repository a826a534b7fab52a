import type { Reconcile, ReconcileResult } from '../runtime/controller-loop.ts';
import { nextSliceMs } from './purge-slice.ts';
import { TENANT_FINALIZER, type TenantDeps } from './tenant-deps.ts';

/**
 * Purges a tenant that no resource purges, identified by its slug: it was deleted through the API, or its resource, or our
 * finalizer, was removed by force in the middle of the purge. One slice per pass, repeated until nothing is left. A resource with
 * our finalizer continues its purge itself, because it reports the progress.
 */
export function createDeletionReconciler({
  store,
  tenants,
  purges,
  requestPass,
}: Pick<TenantDeps, 'store' | 'tenants' | 'purges' | 'requestPass'>): Reconcile {
  return async (slug, _signal, log): Promise<ReconcileResult> => {
    const stored = await store.find(slug);
    if (stored?.status !== 'deleting' || stored.ownerUid === null) return {};
    const { id, ownerUid: uid, ownerRef } = stored;
    const resource = ownerRef === null ? undefined : tenants.get(ownerRef)?.metadata;
    if (resource?.uid === uid && resource.finalizers?.includes(TENANT_FINALIZER)) return {};
    const progress = await purges.slice({ slug, uid }, () => requestPass(slug));
    if (progress === 'done') log.info({ tenantId: id }, 'Purged a deleted tenant');
    return progress === 'done' || progress === 'absent' ? {} : { requeueAfterMs: nextSliceMs(progress) };
  };
}
