import { keyOf } from '../kube/kube-object.ts';
import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import type { ResourceCache } from '../runtime/resource-cache.ts';
import { longestWaitMs, nextProgress, type Observation, type Progress } from './convergence.ts';

type Watched<T extends TenantResource | PlanResource> = Pick<
  ResourceCache<T>,
  'get' | 'all' | 'subscribe' | 'synced'
>;

export type ConvergenceOptions = {
  readonly tenants: Watched<TenantResource>;
  readonly plans: Watched<PlanResource>;
  readonly tenantsOf: (planName: string) => readonly TenantResource[];
  /** Called for each change of a tenant or of its plan that has come into force, with the time that it took. */
  readonly onConverged: (seconds: number) => void;
  /** Milliseconds since the epoch by a clock that is never set back. */
  readonly steadyEpochMs: () => number;
};

export type ConvergenceTracking = {
  readonly longestWaitSeconds: () => number;
  /** One entry per existing resource. */
  readonly progress: ReadonlyMap<string, Progress>;
};

/**
 * Tracks tenants through the caches alone, from the first complete list on: only the published status counts. So a process
 * that waits for the lease also knows since when a change is pending, and continues where the previous leader stopped.
 */
export function trackConvergence(options: ConvergenceOptions): ConvergenceTracking {
  const { tenants, plans, tenantsOf, onConverged, steadyEpochMs } = options;
  const progress = new Map<string, Progress>();
  let isBegun = false;

  const see = (tenant: TenantResource, { isFromBefore }: Pick<Observation, 'isFromBefore'>): void => {
    const key = keyOf(tenant);
    // The duration of a deletion depends on the amount of data.
    if (tenant.metadata.deletionTimestamp !== undefined) {
      progress.delete(key);
      return;
    }
    const observation = {
      tenant,
      plan: plans.get(tenant.spec.planRef.name),
      at: steadyEpochMs(),
      isFromBefore,
    };
    const next = nextProgress(progress.get(key), observation);
    progress.set(key, next.progress);
    if (next.tookMs !== undefined) onConverged(next.tookMs / 1_000);
  };

  tenants.subscribe(({ type, key, object }) => {
    if (!isBegun) return;
    if (type === 'deleted') progress.delete(key);
    else see(object, { isFromBefore: false });
  });
  plans.subscribe(({ key }) => {
    if (!isBegun) return;
    for (const tenant of tenantsOf(key)) see(tenant, { isFromBefore: false });
  });
  // Before that, a plan may be missing only because it was not listed yet.
  void Promise.all([tenants.synced, plans.synced]).then(() => {
    isBegun = true;
    for (const tenant of tenants.all()) see(tenant, { isFromBefore: true });
  });

  return { progress, longestWaitSeconds: () => longestWaitMs(progress.values(), steadyEpochMs()) / 1_000 };
}
