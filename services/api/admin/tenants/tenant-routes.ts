import type { RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { createTenantRoute } from './create-tenant.ts';
import { deleteTenantRoute } from './delete-tenant.ts';
import { liftBrakeRoute } from './lift-brake.ts';
import { listTenantsRoute, showTenantRoute } from './read-tenants.ts';
import { resumeTenantRoute, suspendTenantRoute } from './suspend-tenant.ts';
import { updateTenantRoute } from './update-tenant.ts';

/** Returns the routes of `/v1/admin/tenants` and below. */
export function tenantRoutes(deps: AdminDeps): RouteModule[] {
  return [
    createTenantRoute(deps),
    listTenantsRoute(deps),
    showTenantRoute(deps),
    updateTenantRoute(deps),
    suspendTenantRoute(deps),
    resumeTenantRoute(deps),
    liftBrakeRoute(deps),
    deleteTenantRoute(deps),
  ];
}
