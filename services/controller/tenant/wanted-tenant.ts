import { isUuid, newId, type TenantId } from '#core/domain/storage/ids.ts';
import { effectiveLimits, type Limits, type StatedLimits } from '#core/domain/tenant/plan.ts';
import type { NamedOwner, StoredTenant, WantedTenant } from '#core/store/tenants/managed-tenants.ts';
import type { SuspensionReason } from '#core/store/tenants/tenants.ts';
import { keyOf } from '../kube/kube-object.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';

/** The revision of a plan that defines a tenant's limits. */
export type PlanRevision = {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly limits: StatedLimits;
};

export function slugOf(tenant: TenantResource): string {
  return tenant.spec.slug ?? tenant.metadata.name;
}

export function suspensionOf({ spec }: TenantResource): SuspensionReason | null {
  return spec.state === 'Suspended' ? (spec.suspendReason ?? 'manual') : null;
}

/**
 * Returns whether a platform admin has suspended the tenant after its resource was deleted. Then no resource takes it back until it
 * is resumed, not even one that is suspended too: that one could resume it with its next change. SQL `apply_tenant` refuses it too.
 */
export function isSuspendedByAdmin({ ownerUid, ownerRef, status, suspendedBy }: StoredTenant): boolean {
  return ownerUid === null && status === 'suspended' && suspendedBy !== null && suspendedBy !== ownerRef;
}

/** Returns the state that a resource requests with this revision of its plan. */
export function wantedTenant(tenant: TenantResource, plan: PlanRevision): WantedTenant & { limits: Limits } {
  const { metadata, spec } = tenant;
  const slug = slugOf(tenant);
  return {
    id: idFor(metadata.uid),
    slug,
    name: spec.displayName ?? slug,
    plan: plan.name,
    limits: effectiveLimits(plan.limits, spec.limits),
    overrides: { ...spec.limits },
    suspension: suspensionOf(tenant),
    uid: metadata.uid,
    ref: keyOf(tenant),
    createdAt: metadata.creationTimestamp,
    generation: metadata.generation,
    planUid: plan.uid,
    planGeneration: plan.generation,
    owners: (spec.owners ?? []).map(toNamedOwner),
  };
}

/**
 * Returns the plan of a stored tenant whose resource names one that does not exist (yet or any more): a wrong name changes
 * no limits, and suspension still works.
 */
export function lastKnownPlan(stored: StoredTenant): PlanRevision {
  return {
    name: stored.plan,
    uid: stored.planUid ?? '',
    generation: stored.planGeneration ?? 0,
    limits: stored.limits ?? {},
  };
}

export type Differences = {
  /** Names of the fields that differ from the resource; empty: nothing needs to be written. */
  readonly fields: readonly string[];
  /** The resource and its plan have not changed since they were last applied, so someone else changed the tenant. */
  readonly isDrift: boolean;
};

/** Returns how the stored tenant differs from the wanted one. */
export function differences(stored: StoredTenant | undefined, wanted: WantedTenant): Differences {
  if (stored === undefined) return { fields: ['tenant'], isDrift: false };
  const isKnown =
    stored.ownerUid === wanted.uid &&
    stored.ownerGeneration === wanted.generation &&
    stored.planUid === wanted.planUid &&
    stored.planGeneration === wanted.planGeneration;
  const settings = [
    ['plan', stored.plan === wanted.plan],
    ['limits', equalLimits(stored.limits, wanted.limits)],
    ['overrides', equalLimits(stored.overrides, wanted.overrides)],
    [
      'suspension',
      stored.status === (wanted.suspension === null ? 'active' : 'suspended') &&
        stored.suspensionReason === wanted.suspension,
    ],
  ] as const;
  const moved = settings.filter(([, isEqual]) => !isEqual).map(([name]) => name);
  const said = [
    ['displayName', stored.displayName === wanted.name],
    ['owners', JSON.stringify(stored.namedOwners) === JSON.stringify(wanted.owners)],
    ['revision', isKnown],
  ] as const;
  const named = said.filter(([, isEqual]) => !isEqual).map(([name]) => name);
  return { fields: [...moved, ...named], isDrift: isKnown && moved.length > 0 };
}

/** A new tenant's id is its resource's UID, so that a retry after a crash finds the key that the first attempt created. */
function idFor(uid: string): TenantId {
  return isUuid(uid) ? (uid as TenantId) : newId<TenantId>();
}

function toNamedOwner(owner: {
  readonly email?: string | undefined;
  readonly subject?: string | undefined;
}): NamedOwner {
  return owner.email === undefined ? { subject: owner.subject ?? '' } : { email: owner.email };
}

function equalLimits(a: StatedLimits | null, b: StatedLimits): boolean {
  const names = new Set([...Object.keys(a ?? {}), ...Object.keys(b)]);
  return a !== null && [...names].every((name) => a[name] === b[name]);
}
