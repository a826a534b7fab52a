import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';

/** Returns whether the status says that this generation of the resource is in force, with this revision of its plan. */
export function isReadyFor({ metadata, status }: TenantResource, plan: PlanResource): boolean {
  return (
    status?.observedGeneration === metadata.generation &&
    status.plan?.name === plan.metadata.name &&
    status.plan.generation === plan.metadata.generation &&
    status.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
  );
}
