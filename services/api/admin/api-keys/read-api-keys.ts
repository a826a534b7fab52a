import { z } from 'zod';
import { orNotFound } from '#core/domain/fault/app-error.ts';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { KEY_MODES } from '#core/domain/tenant/service-key.ts';
import {
  API_KEY_STATUSES,
  findApiKey,
  scanApiKeys,
  type ListedApiKey,
} from '#core/store/tenants/api-keys.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { filteredPage } from '../../http/lists/filtered-page.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import { pageOf, pageQuery } from '../../http/lists/page.ts';
import { apiKeyAuth, apiKeyTag } from './change-api-key.ts';
import { ApiKey } from './api-key-schema.ts';
import { viewApiKey } from './api-key-view.ts';

export function listApiKeysRoute({ read, cursors }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/api-keys',
    operation: 'listApiKeys',
    summary: 'List keys',
    description:
      'Newest first, including revoked and expired keys. A page reads at most 5,000 keys or 100 ms: with a filter it may be short, even empty, and still have a `nextCursor`.',
    tag: apiKeyTag,
    auth: apiKeyAuth,
    query: z.object({
      ...pageQuery,
      mode: z.enum(KEY_MODES).optional().describe('Only keys of this mode.'),
      status: z.enum(API_KEY_STATUSES).optional().describe('Only keys in this state.'),
    }),
    response: pageOf(ApiKey),
    errors: ['invalid_cursor'],
    handler: async ({ caller: { tenant }, query: { limit, cursor, ...filter }, gone }) => {
      const pages = { list: 'api-keys', of: tenant.id, ...filter };
      const before = cursors.position<number>(pages, cursor);
      const { rows, next } = await read(tenant.id, gone(), (tx) =>
        filteredPage({
          limit,
          before,
          isFiltered: Object.values(filter).some((value) => value !== undefined),
          positionOf: ({ seq }: ListedApiKey) => seq,
          scan: (range) => scanApiKeys(tenant.id, tx, filter, range),
        }),
      );
      return {
        body: {
          items: rows.map(viewApiKey),
          nextCursor: cursors.next(pages, next),
        },
      };
    },
  });
}

export function showApiKeyRoute({ sql }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/api-keys/:id',
    operation: 'getApiKey',
    summary: 'Show a key',
    description: 'Everything but the key itself.',
    tag: apiKeyTag,
    auth: apiKeyAuth,
    params: IdParams,
    response: ApiKey,
    handler: async ({ caller: { tenant }, params }) => {
      const key = orNotFound(
        await withTenant(sql, tenant.id, (tx) => findApiKey(tenant.id, tx, params.id as ApiKeyId)),
      );
      return { body: viewApiKey(key) };
    },
  });
}
