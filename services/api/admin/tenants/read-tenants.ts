import { z } from 'zod';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { withDatabaseDeadline } from '#core/store/query/tenant-scope.ts';
import { listTenants, type TenantPosition } from '#core/store/tenants/tenants.ts';
import { pageFrom } from '../../http/lists/cursor.ts';
import { pageOf, pageQuery } from '../../http/lists/page.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { reach, tenantRouteAuth, tenantRouteTag } from './tenant-access.ts';
import { Tenant, viewTenant } from './tenant-view.ts';

export function listTenantsRoute({ sql, cursors }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/tenants',
    operation: 'listTenants',
    summary: 'List tenants',
    description: 'The tenants that the caller is a member of; a platform admin sees all.',
    tag: tenantRouteTag,
    auth: tenantRouteAuth,
    query: z.object(pageQuery),
    response: pageOf(Tenant),
    errors: ['invalid_cursor'],
    handler: async ({ caller, query: { limit, cursor } }) => {
      const pages = { list: 'tenants', of: caller.isPlatformAdmin ? null : caller.user.id };
      const after = cursors.position<TenantPosition>(pages, cursor);
      const rows = await withDatabaseDeadline(listTenants(sql, { member: pages.of, after, most: limit + 1 }));
      return {
        body: pageFrom(
          rows,
          limit,
          ({ tenant }) => viewTenant(tenant),
          ({ position }) => cursors.next(pages, position),
        ),
      };
    },
  });
}

export function showTenantRoute({ sql }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/tenants/:id',
    operation: 'getTenant',
    summary: 'Show a tenant',
    description: 'A tenant that the caller is a member of; a platform admin sees all.',
    tag: tenantRouteTag,
    auth: tenantRouteAuth,
    params: IdParams,
    response: Tenant,
    handler: async ({ caller, params }) => {
      const { tenant } = await reach(sql, caller, params.id as TenantId);
      return { body: viewTenant(tenant) };
    },
  });
}
