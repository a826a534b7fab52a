import type { AdminDeps } from './admin-deps.ts';
import { apiKeyRoutes } from './api-keys/api-key-routes.ts';
import { auditLogRoute } from './audit-log.ts';
import { limitsRoute } from './limits.ts';
import { meRoute } from './me.ts';
import { memberRoutes } from './members.ts';
import { channelRouteRoutes } from './channel-routes.ts';
import { platformUsageRoute } from './platform-usage.ts';
import { providerCatalogRoute } from './provider-catalog.ts';
import { providerAccountRoutes } from './provider-accounts/account-routes.ts';
import { simulateRouteRoute } from './simulate-route.ts';
import { tenantRoutes } from './tenants/tenant-routes.ts';
import { usageRoute } from './usage.ts';
import type { RouteModule } from '../http/routes/route.ts';

/** Returns the routes that people call with a bearer token, except those that read messages. */
export function adminRoutes(deps: AdminDeps): RouteModule[] {
  return [
    meRoute(deps),
    ...tenantRoutes(deps),
    ...memberRoutes(deps),
    providerCatalogRoute(),
    ...providerAccountRoutes(deps),
    ...channelRouteRoutes(deps),
    simulateRouteRoute(deps),
    ...apiKeyRoutes(deps),
    limitsRoute(deps),
    usageRoute(deps),
    platformUsageRoute(deps),
    auditLogRoute(deps),
  ];
}
