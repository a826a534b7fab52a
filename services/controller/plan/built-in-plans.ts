import { PLAN_NAMES, BUILT_IN_PLANS, type PlanName } from '#core/domain/tenant/plan.ts';
import { writtenLimits } from '../resources/limit-fields.ts';
import { GROUP_VERSION } from '../resources/api-group.ts';
import type { NewPlanResource } from '../resources/plan-resource.ts';

const DISPLAY_NAMES: Readonly<Record<PlanName, string>> = {
  free: 'Free',
  starter: 'Starter',
  growth: 'Growth',
  enterprise: 'Enterprise',
};

/** Returns the plans that are created when a cluster lacks them. */
export function builtInPlans(): NewPlanResource[] {
  return PLAN_NAMES.map((name) => ({
    apiVersion: GROUP_VERSION,
    kind: 'Plan',
    metadata: { name },
    spec: { displayName: DISPLAY_NAMES[name], limits: writtenLimits(BUILT_IN_PLANS[name]) },
  }));
}
