import { KeyringError } from '#core/platform/vault/keyring.ts';
import type { Finding } from '../resources/own-conditions.ts';
import { keyOf } from '../kube/kube-object.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import type { ReconcileResult } from '../runtime/controller-loop.ts';
import { keyVerdict } from './key-verdict.ts';
import { nextSliceMs, type PurgeProgress } from './purge-slice.ts';
import { TENANT_FINALIZER, type TenantDeps } from './tenant-deps.ts';
import { notReady } from './tenant-findings.ts';
import { slugOf } from './wanted-tenant.ts';
import { writeNotReady, writeStatus } from './write-status.ts';

/**
 * Handles the deletion of a resource: keeps its tenant, suspended, or purges it. Removes the finalizer once the resource owns no
 * tenant, and can be interrupted and repeated at every step. A step that fails is reported in the status and thrown, to be retried.
 */
export async function finalizeTenant(
  deps: TenantDeps,
  tenant: TenantResource,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  if (!tenant.metadata.finalizers?.includes(TENANT_FINALIZER)) return tellDeleted(deps, tenant, signal);
  // Its purge has begun and its status says so: no query until it has its turn.
  if (deps.purges.isWaiting(tenant.metadata.uid)) return { requeueAfterMs: nextSliceMs('waiting') };
  const rest = await giveUpTenant(deps, tenant).catch(async (fault: unknown) => {
    await writeNotReady(deps, tenant, findingOf(fault), signal);
    throw fault;
  });
  if (rest !== 'done') {
    await writeNotReady(deps, tenant, notReady('Purging', PROGRESS[rest]), signal);
    return { requeueAfterMs: nextSliceMs(rest) };
  }
  const left = await deps.resources.removeFinalizer(tenant, signal);
  return left === undefined ? {} : tellDeleted(deps, left, signal);
}

/** If others' finalizers keep a resource without a tenant, its status must not look like that of one in force. */
async function tellDeleted(
  deps: TenantDeps,
  resource: TenantResource,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { metadata, status } = resource;
  if (status !== undefined && metadata.finalizers?.length)
    await writeStatus(deps, resource, { facts: { slug: slugOf(resource) }, findings: [DELETED] }, signal);
  return {};
}

/** Suspends the tenant, or purges a part of it. @returns `done` when the resource owns no tenant any more. */
async function giveUpTenant(
  deps: TenantDeps,
  tenant: TenantResource,
): Promise<Exclude<PurgeProgress, 'absent'>> {
  const { store, notify, events } = deps;
  const slug = slugOf(tenant);
  const stored = await store.find(slug);
  const { uid, creationTimestamp } = tenant.metadata;
  const gone = { slug, uid, ref: keyOf(tenant), createdAt: creationTimestamp };
  // The stored row may be newer than this resource. Therefore no write relies on an owner that was read: the database
  // compares the stored owner with the deleted resource.
  const isOwner = stored?.ownerUid === uid;
  if (isOwner && (tenant.spec.deletionPolicy === 'Purge' || stored.status === 'deleting')) {
    const begun = await store.beginPurge(gone);
    if (begun !== undefined) notify(begun);
    if (begun !== undefined && stored.status !== 'deleting')
      events.normal(tenant, 'Purging', 'Intake has ended; rows are being deleted');
    const rest = await deps.purges.slice(gone, () => deps.requestPass(keyOf(tenant)));
    if (rest === 'done') events.normal(tenant, 'Purged', 'No row and no key of the tenant is left');
    return rest === 'absent' ? 'done' : rest;
  }
  const id = await store.retain(gone);
  if (id !== undefined) {
    notify(id);
    events.normal(tenant, 'Retained', 'The tenant is suspended and keeps its data and key');
  }
  return 'done';
}

function findingOf(fault: unknown): Finding {
  if (!(fault instanceof KeyringError)) return DATABASE_AWAY;
  const { reason, message } = keyVerdict(fault);
  return notReady(reason, message);
}

const DATABASE_AWAY = notReady(
  'DatabaseUnavailable',
  'The database gave no answer; the deletion is tried again',
);

const DELETED = notReady(
  'Deleted',
  'This resource owns no tenant any more; only finalizers of other programs keep it',
);

const PROGRESS = {
  draining: 'Waiting for provider calls under way, and until no api has a cached copy of the tenant',
  deleting: 'Deleting rows, of one tenant at a time',
  // The same text, so that the turns of purges do not cause a write of the status each.
  waiting: 'Deleting rows, of one tenant at a time',
} as const;
