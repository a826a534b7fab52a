import type { AdminDeps } from '../admin-deps.ts';
import type { RouteModule } from '../../http/routes/route.ts';
import { createApiKeyRoute } from './create-api-key.ts';
import { listApiKeysRoute, showApiKeyRoute } from './read-api-keys.ts';
import { revokeApiKeyRoute } from './revoke-api-key.ts';
import { rotateApiKeyRoute } from './rotate-api-key.ts';
import { updateApiKeyRoute } from './update-api-key.ts';

/** Returns the routes of `/v1/admin/api-keys` and below. */
export function apiKeyRoutes(deps: AdminDeps): RouteModule[] {
  return [
    createApiKeyRoute(deps),
    listApiKeysRoute(deps),
    showApiKeyRoute(deps),
    updateApiKeyRoute(deps),
    revokeApiKeyRoute(deps),
    rotateApiKeyRoute(deps),
  ];
}
