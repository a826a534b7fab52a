import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { KeyringError } from '#core/platform/vault/keyring.ts';
import type { StoredTenant } from '#core/store/tenants/managed-tenants.ts';
import { keyOf } from '../kube/kube-object.ts';
import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import { keyVerdict } from './key-verdict.ts';
import { nextSliceMs } from './purge-slice.ts';
import type { TenantDeps } from './tenant-deps.ts';
import type { InForce } from './tenant-facts.ts';
import { failed, type Verdict } from './tenant-findings.ts';
import {
  differences,
  lastKnownPlan,
  slugOf,
  wantedTenant,
  isSuspendedByAdmin,
  type PlanRevision,
} from './wanted-tenant.ts';

/** Until the next look at a purge that has to end first. */
const PURGING_RECHECK_MS = 1_000;

/** What of a tenant's resource is in force in the database. */
export type Applied = InForce & {
  readonly verdict: Verdict;
  readonly fault?: unknown;
  /** When to look again after a verdict that is not ok. Default: a minute. */
  readonly recheckMs?: number;
  /** The database did not answer, not even for the stored state. */
  readonly isUnanswered?: boolean;
};

const NOTHING = { id: null, limits: null, plan: null } as const;

/** Applies a tenant's resource in the database. */
export async function applyTenant(
  deps: TenantDeps,
  tenant: TenantResource,
  plan: PlanResource | undefined,
  log: Logger,
): Promise<Applied> {
  let isFound = false;
  try {
    const stored = await deps.store.find(slugOf(tenant));
    isFound = true;
    if (stored !== undefined && stored.ownerRef !== keyOf(tenant)) return slugConflict(tenant, stored, log);
    if (stored?.status === 'deleting') return await awaitPurge(deps, tenant, stored);
    if (stored !== undefined && isSuspendedByAdmin(stored)) return suspendedByAdmin(stored);
    const revision = planRevision(plan) ?? (stored && lastKnownPlan(stored));
    if (revision === undefined)
      return { ...NOTHING, verdict: failed('PlanNotFound', 'There is no plan to take limits from') };
    return await apply(deps, tenant, stored, revision);
  } catch (fault) {
    log.error({ err: fault }, 'Could not apply a tenant');
    const verdict =
      fault instanceof KeyringError
        ? keyVerdict(fault)
        : failed('DatabaseUnavailable', 'The database did not take the tenant; it is tried again');
    return { ...NOTHING, verdict, fault, isUnanswered: !isFound && databaseFaultOf(fault) === 'away' };
  }
}

async function apply(
  { store, notify, events }: TenantDeps,
  tenant: TenantResource,
  stored: StoredTenant | undefined,
  revision: PlanRevision,
): Promise<Applied> {
  const wanted = wantedTenant(tenant, revision);
  const { fields, isDrift } = differences(stored, wanted);
  const done = (id: TenantId): Applied => ({
    verdict: { ok: true, reason: 'Applied', message: 'Limits, suspension and owners are in force' },
    id,
    limits: wanted.limits,
    plan: revision,
  });
  if (stored !== undefined && fields.length === 0) return done(stored.id);

  const { outcome, id } = await store.apply(wanted);
  switch (outcome) {
    case 'applied': {
      if (id === null) throw new Error('a tenant without an id was applied');
      notify(id);
      if (isDrift) events.driftRepaired(tenant, fields);
      else if (stored === undefined) events.normal(tenant, 'Created', `Tenant ${id} was created`);
      return done(id);
    }
    case 'taken':
      return { ...NOTHING, verdict: slugTaken(wanted.slug) };
    case 'purging':
      return purgingEarlier(PURGING_RECHECK_MS);
    case 'stale':
      // The cache is stale; the event that updates it will arrive.
      return { ...NOTHING, verdict: failed('Stale', 'A newer revision has been applied') };
  }
}

/** The log alone says who has the slug: whoever may create Tenants could learn the names of others' by guessing slugs. */
function slugConflict(tenant: TenantResource, { ownerRef }: StoredTenant, log: Logger): Applied {
  const slug = slugOf(tenant);
  log.info({ slug, holder: ownerRef ?? 'the API' }, 'The slug of a tenant is taken');
  return { ...NOTHING, verdict: slugTaken(slug) };
}

function slugTaken(slug: string): Verdict {
  return failed('SlugConflict', `The slug ${slug} is taken`);
}

function suspendedByAdmin({ suspensionReason }: StoredTenant): Applied {
  const message = `A platform admin suspended the tenant (${suspensionReason}) after its resource was deleted: it must be resumed through the API first`;
  return { ...NOTHING, verdict: failed('SuspendedByAdmin', message) };
}

/** The resource that started the purge was removed before the purge ended; this one cannot start before that. */
async function awaitPurge(deps: TenantDeps, tenant: TenantResource, stored: StoredTenant): Promise<Applied> {
  const owned = { slug: slugOf(tenant), uid: stored.ownerUid ?? '' };
  const progress = await deps.purges.slice(owned, () => deps.requestPass(keyOf(tenant)));
  return purgingEarlier(progress === 'waiting' ? nextSliceMs(progress) : PURGING_RECHECK_MS);
}

function purgingEarlier(recheckMs: number): Applied {
  return {
    ...NOTHING,
    verdict: failed('Purging', 'An earlier tenant of this slug is being purged'),
    recheckMs,
  };
}

function planRevision(plan: PlanResource | undefined): PlanRevision | undefined {
  if (plan === undefined) return undefined;
  const { name, uid, generation } = plan.metadata;
  return { name, uid, generation, limits: plan.spec.limits };
}
