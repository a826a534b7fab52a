import type { TenantResource } from '../resources/tenant-resource.ts';
import { TENANT_FINALIZER } from './tenant-deps.ts';

/**
 * Returns for how long the Tenant that was deleted first has been kept by our finalizer, in seconds; 0 if there is none. The status
 * does not tell it: once the rows are purged, a finalizer that the API server does not let us remove leaves it as it was.
 * @param now milliseconds since the epoch.
 */
export function oldestDeletionSeconds(tenants: Iterable<TenantResource>, now: number): number {
  let longestMs = 0;
  for (const { metadata } of tenants) {
    if (metadata.deletionTimestamp === undefined || !metadata.finalizers?.includes(TENANT_FINALIZER))
      continue;
    longestMs = Math.max(longestMs, now - Date.parse(metadata.deletionTimestamp));
  }
  return longestMs / 1_000;
}
