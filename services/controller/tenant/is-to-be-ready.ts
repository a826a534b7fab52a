import type { TenantResource } from '../resources/tenant-resource.ts';
import { TENANT_FINALIZER } from './tenant-deps.ts';

/**
 * Returns whether it is a fault if the resource stays without being Ready. A purge can take hours: it is watched by the ages of
 * deletions. A deleted resource that only finalizers of others keep owns no tenant.
 */
export function isToBeReady({
  metadata,
  status,
}: Pick<TenantResource, 'status'> & {
  readonly metadata: Pick<TenantResource['metadata'], 'deletionTimestamp' | 'finalizers'>;
}): boolean {
  if (metadata.deletionTimestamp === undefined) return true;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.reason !== 'Purging' && (metadata.finalizers ?? []).includes(TENANT_FINALIZER);
}
