import type { z } from 'zod';
import { AppError } from '#core/domain/fault/app-error.ts';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import { storeRoute } from '#core/store/accounts/routes.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { assertMatches, assertNoneMatches, etagOf } from '../http/routes/if-match.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { changeTenant } from '../changes/change-tenant.ts';
import { iso } from '../http/iso.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { AdminDeps } from './admin-deps.ts';
import {
  assertSteps,
  currentRoute,
  isSameRoute,
  routeFields,
  toNewRoute,
  type ShownRoute,
} from './route-change.ts';
import { ChannelParams, Route, SetRoute } from './route-schemas.ts';

const tag = 'Providers';

/** The routes of channels: which accounts send their messages. */
export function channelRouteRoutes(deps: AdminDeps): RouteModule[] {
  return [read(deps), set(deps)];
}

function read({ sql }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/routes/:channel',
    operation: 'getRoute',
    summary: "Show a channel's route",
    description:
      'Until a route is set, it has version 0, and its steps are the accounts that can be used, the oldest first. The header `ETag` contains its version.',
    tag,
    auth: { kind: 'bearer', role: 'viewer' },
    params: ChannelParams,
    versioned: true,
    response: Route,
    handler: async ({ caller, params: { channel } }) =>
      answerOf(await withTenant(sql, caller.tenant.id, (tx) => currentRoute(caller.tenant.id, tx, channel))),
  });
}

function set(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'PUT',
    path: '/v1/admin/routes/:channel',
    operation: 'setRoute',
    summary: "Set a channel's route",
    description:
      'Takes effect within a second, for messages that are sent from then on and for waiting messages that need another account. With `If-Match`, or `version` in the body, it is refused if the route was changed in the meantime; with `If-None-Match: *` it is refused if a route is set. Setting the route that is already in force changes nothing.',
    tag,
    auth: { kind: 'bearer', role: 'admin' },
    params: ChannelParams,
    body: SetRoute,
    versioned: true,
    response: Route,
    errors: ['version_mismatch'],
    handler: async ({ caller, params: { channel }, body, request, warnings }) => {
      const tenantId = caller.tenant.id;
      if (body.channel !== undefined && body.channel !== channel)
        warnings.add({ field: 'channel', message: 'Ignored: the channel in the path counts' });
      const stored = await changeTenant(deps, scopeOf(caller, request), async ({ tx, audit }) => {
        const before = await currentRoute(tenantId, tx, channel);
        assertMatches(request.ifMatch, before.version);
        assertNoneMatches(request.ifNoneMatch, before.version);
        if (body.version !== undefined && body.version !== before.version)
          throw new AppError('version_mismatch');
        const route = toNewRoute(body);
        await assertSteps(tenantId, tx, route, before);
        if (before.version > 0 && isSameRoute(before, route)) return before;
        const after = await storeRoute(tenantId, tx, channel, route);
        const changes = auditChanges(routeFields(before), routeFields(after));
        await audit('route.updated', channel, { version: after.version }, { name: channel, changes });
        return after;
      });
      deps.notify('route', { tenantId });
      return answerOf(stored);
    },
  });
}

function answerOf(route: ShownRoute): { body: z.output<typeof Route>; headers: Record<string, string> } {
  const { channel, version, createdAt } = route;
  return {
    body: { channel, ...routeFields(route), version, updatedAt: iso(createdAt) },
    headers: { etag: etagOf(version) },
  };
}
