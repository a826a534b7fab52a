import { z } from 'zod';
import { PLAN_NAMES, type PlanName } from '#core/domain/tenant/plan.ts';

/** The plan of a tenant that the API creates or changes. */
export const planField = z
  .enum(PLAN_NAMES as [PlanName, ...PlanName[]])
  .describe(
    'The tenant gets the built-in limits of this plan, even if the cluster has a Plan of the same name.',
  );
