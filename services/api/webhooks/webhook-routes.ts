import type { RouteModule } from '../http/routes/route.ts';
import { deliveryRoutes } from './delivery-routes.ts';
import { endpointMoveRoutes } from './endpoint-moves.ts';
import { endpointRoutes } from './endpoint-routes.ts';
import { testEndpointRoute } from './test-endpoint-route.ts';
import { replayEventRoute } from './replay-event-route.ts';
import { webhookKeyRoutes } from './key-routes.ts';
import type { WebhookDeps } from './webhook-deps.ts';

/** The routes for webhook endpoints and their deliveries. */
export function webhookRoutes(deps: WebhookDeps): RouteModule[] {
  return [
    ...endpointRoutes(deps),
    ...endpointMoveRoutes(deps),
    testEndpointRoute(deps),
    ...deliveryRoutes(deps),
    replayEventRoute(deps),
    ...webhookKeyRoutes(deps),
  ];
}
