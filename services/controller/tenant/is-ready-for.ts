import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';

/** Whether the status says that this generation of the resource is in force, under this revision of its plan. */
export function isReadyFor({ metadata, status }: TenantResource, plan: PlanResource): boolean {
  return (
    status?.observedGeneration === metadata.generation &&
    status.plan?.name === plan.metadata.name &&
    status.plan.generation === plan.metadata.generation &&
    status.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
  );
}
