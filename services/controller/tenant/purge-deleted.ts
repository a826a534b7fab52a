import { deletionOwner } from '#core/store/managed-tenants.ts';
import type { Reconcile, ReconcileResult } from '../runtime/controller-loop.ts';
import { continuePurge, PURGE_RECHECK_MS } from './continue-purge.ts';
import type { TenantDeps } from './tenant-deps.ts';

/**
 * Purges a tenant that was deleted through the API, identified by its slug: one slice per pass, repeated until nothing is
 * left. A slug that belongs to another owner by now is left alone.
 */
export function createDeletionReconciler(
  deps: Pick<TenantDeps, 'store' | 'keys' | 'notify' | 'now'>,
): Reconcile {
  return async (slug, _signal, log): Promise<ReconcileResult> => {
    const stored = await deps.store.find(slug);
    if (stored?.status !== 'deleting') return {};
    const { id, ownerUid: uid } = stored;
    if (uid !== deletionOwner(id)) return {};
    switch (await continuePurge(deps, { slug, uid })) {
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
