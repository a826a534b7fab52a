import type { TenantId } from '#core/domain/ids.ts';
import type { OwnedSlug } from '#core/store/managed-tenants.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import type { ReconcileResult } from '../runtime/controller-loop.ts';
import { TENANT_FINALIZER, type TenantDeps } from './tenant-deps.ts';
import { notReady } from './tenant-findings.ts';
import { refOf, slugOf } from './wanted-tenant.ts';
import { writeNotReady } from './write-status.ts';

/** Messages of one transaction of a purge. */
const PURGED_AT_ONCE = 500;
/** A purge yields its worker after this, so that others' changes do not wait for a large tenant. */
const PURGE_SLICE_MS = 5_000;
const PURGE_RECHECK_MS = 1_000;

/**
 * Lets go of what a deleted resource owned: keeps it, suspended, or purges it. Ends by removing the finalizer, and can
 * be cut off and begun again at every step.
 */
export async function finalizeTenant(
  deps: TenantDeps,
  tenant: TenantResource,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  if (!tenant.metadata.finalizers?.includes(TENANT_FINALIZER)) return {};
  const { store, notify, events } = deps;
  const slug = slugOf(tenant);
  const stored = await store.find(slug).catch(async (fault: unknown) => {
    await writeNotReady(deps, tenant, DATABASE_AWAY, signal);
    throw fault;
  });
  // Only the resource that owns a tenant purges it. One that never came to own what another of its name left behind
  // leaves it suspended.
  const isOwner = stored?.ownerUid === tenant.metadata.uid;
  const isAbandoned = stored !== undefined && stored.ownerUid !== null && stored.ownerRef === refOf(tenant);
  if (
    stored !== undefined &&
    isOwner &&
    (tenant.spec.deletionPolicy === 'Purge' || stored.status === 'deleting')
  ) {
    if (stored.status !== 'deleting')
      events.normal(tenant, 'Purging', 'Intake has ended; rows are being deleted');
    const rest = await purgeRest(deps, { slug, uid: tenant.metadata.uid }, stored.id);
    if (rest !== 'done') {
      await writeNotReady(deps, tenant, notReady('Purging', PROGRESS[rest]), signal);
      return { requeueAfterMs: rest === 'draining' ? PURGE_RECHECK_MS : 0 };
    }
    events.normal(tenant, 'Purged', 'No row and no key of the tenant is left');
  } else if (stored !== undefined && isAbandoned && stored.ownerUid !== null) {
    const id = await store.retain({ slug, uid: stored.ownerUid });
    if (id !== undefined) {
      notify(id);
      events.normal(tenant, 'Retained', 'The tenant is suspended and keeps its data and key');
    }
  }
  await deps.resources.removeFinalizer(tenant, signal);
  return {};
}

const DATABASE_AWAY = notReady(
  'DatabaseUnavailable',
  'The database gave no answer; the deletion is tried again',
);

const PROGRESS = {
  draining: 'Waiting for provider calls under way',
  deleting: 'Deleting rows',
} as const;

/**
 * Goes on with a purge for a while. The key goes when the rows have gone, and the tenant's own row last: whoever begins
 * again after a crash finds by it what is left to do.
 */
export async function purgeRest(
  { store, keys, notify, now }: Pick<TenantDeps, 'store' | 'keys' | 'notify' | 'now'>,
  owned: OwnedSlug,
  tenantId: TenantId,
): Promise<'done' | 'draining' | 'deleting'> {
  const until = now().getTime() + PURGE_SLICE_MS;
  const begun = await store.beginPurge(owned);
  if (begun === undefined) return 'done';
  notify(begun);
  while (now().getTime() < until) {
    const { outcome } = await store.purgeSome(owned, PURGED_AT_ONCE);
    if (outcome === 'draining') return 'draining';
    if (outcome === 'absent') return 'done';
    if (outcome === 'empty') {
      await keys.destroy(tenantId);
      if (await store.endPurge(owned)) {
        notify(tenantId);
        return 'done';
      }
    }
  }
  return 'deleting';
}
