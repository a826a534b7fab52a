import { isDeepStrictEqual } from 'node:util';
import { conditionsOf, ownConditions, type Finding } from '../resources/own-conditions.ts';
import type { PlanResource, PlanStatus } from '../resources/plan-resource.ts';
import type { Reconcile } from '../runtime/controller-loop.ts';
import type { PlanDeps } from './plan-deps.ts';

/** Every release with tenants on a plan adds its own finalizer: this prefix and its name. */
const FINALIZER_PREFIX = 'plan.despatch.dev/';

/**
 * Prevents a plan from being deleted while tenants are bound to it. Several releases may share a plan: whether it is in use
 * is derived from its finalizers, which all of them read, so two controllers never write contradicting statuses.
 */
export function createPlanReconciler(deps: PlanDeps): Reconcile {
  const finalizer = `${FINALIZER_PREFIX}${deps.controllerName}`;
  return async (key, signal) => {
    const plan = deps.plans.get(key);
    if (plan === undefined) return {};
    const { finalizers = [], deletionTimestamp } = plan.metadata;
    const bound = deps.countBoundTenants(plan.metadata.name);
    const isHeld = finalizers.includes(finalizer);
    // No finalizer can be added to an object that is being deleted.
    const isToBeHeld = bound > 0 && !isHeld && deletionTimestamp === undefined;
    let current: PlanResource | undefined = plan;
    if (isToBeHeld) current = await deps.resources.addFinalizer(plan, finalizer, signal);
    const isReleased = bound === 0 && deps.areTenantsKnown();
    if (isReleased && isHeld) current = await deps.resources.removeFinalizer(plan, finalizer, signal);
    // The object disappears with its last finalizer.
    if (current === undefined || (deletionTimestamp !== undefined && !current.metadata.finalizers?.length))
      return {};
    const others = finalizers.filter((name) => name.startsWith(FINALIZER_PREFIX) && name !== finalizer);
    const holders = [...others, ...(bound > 0 || (isHeld && !isReleased) ? [finalizer] : [])];
    if (deletionTimestamp !== undefined && bound > 0)
      deps.warning(plan, 'InUse', 'The plan is deleted once no tenant uses it');
    await writeStatus(deps, current, holders, signal);
    return { requeueAfterMs: deps.resyncMs };
  };
}

async function writeStatus(
  { resources, now }: PlanDeps,
  plan: PlanResource,
  holders: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const { generation } = plan.metadata;
  const status: PlanStatus = {
    observedGeneration: generation,
    conditions: conditionsOf(planFindings(holders), plan.status?.conditions, generation, now()),
  };
  const before = plan.status && {
    ...plan.status,
    conditions: ownConditions('Plan', plan.status.conditions),
  };
  if (!isDeepStrictEqual(status, before)) await resources.applyStatus(plan, status, signal);
}

function planFindings(holders: readonly string[]): Finding[] {
  const names = holders.map((holder) => holder.slice(FINALIZER_PREFIX.length)).toSorted();
  return [
    { type: 'Ready', status: 'True', reason: 'Accepted', message: 'Tenants may use the plan' },
    names.length === 0
      ? { type: 'InUse', status: 'False', reason: 'NoTenants', message: 'No tenant is bound to the plan' }
      : { type: 'InUse', status: 'True', reason: 'TenantsBound', message: `Tenants of: ${names.join(', ')}` },
  ];
}
