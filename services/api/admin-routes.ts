import type { AdminDeps } from './admin-change.ts';
import { apiKeyRoutes } from './routes/api-keys.ts';
import { auditLogRoute } from './routes/audit-log.ts';
import { limitsRoute } from './routes/limits.ts';
import { meRoute } from './routes/me.ts';
import { memberRoutes } from './routes/members.ts';
import { providerCatalogRoute } from './routes/provider-catalog.ts';
import { providerRoutes } from './routes/providers.ts';
import { tenantRoutes } from './routes/tenants.ts';
import type { RouteModule } from './routes-kit.ts';

/** What people do with a bearer token, besides reading messages. */
export function adminRoutes(deps: AdminDeps): RouteModule[] {
  return [
    meRoute(deps),
    ...tenantRoutes(deps),
    ...memberRoutes(deps),
    providerCatalogRoute(),
    ...providerRoutes(deps),
    ...apiKeyRoutes(deps),
    limitsRoute(deps),
    auditLogRoute(deps),
  ];
}
