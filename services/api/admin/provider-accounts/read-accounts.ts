import { z } from 'zod';
import { ACCOUNT_STATUSES } from '#core/domain/account/account-state.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { listAccounts } from '#core/store/accounts/provider-accounts.ts';
import { pageFrom } from '../../http/lists/cursor.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import { pageOf, pageQuery } from '../../http/lists/page.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { CATALOG_IDS } from './account-schemas.ts';
import { readRecent } from './account-health-route.ts';
import { Provider, viewAccountFor } from './account-view.ts';
import { accountRouteReader, accountRouteTag, requireAccount } from './change-account.ts';

export function listAccountsRoute({ read, cursors, receiptUrls }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/providers',
    operation: 'listProviders',
    summary: 'List provider accounts',
    description: 'Newest first. An account must match all filters.',
    tag: accountRouteTag,
    auth: accountRouteReader,
    query: z.object({
      ...pageQuery,
      channel: z.enum(CHANNELS).optional().describe('Only accounts of this channel.'),
      status: z.enum(ACCOUNT_STATUSES).optional().describe('Only accounts in this state.'),
      provider: z.enum(CATALOG_IDS).optional().describe('Only accounts of this provider of the catalog.'),
    }),
    response: pageOf(Provider),
    errors: ['invalid_cursor'],
    handler: async ({ caller, query: { limit, cursor, ...filter }, gone }) => {
      const { tenant } = caller;
      const pages = { list: 'providers', of: tenant.id, ...filter };
      const before = cursors.position<number>(pages, cursor);
      const rows = await read(tenant.id, gone(), (tx) =>
        listAccounts(tenant.id, tx, { ...filter, before, most: limit + 1 }),
      );
      return {
        body: pageFrom(
          rows,
          limit,
          ({ account }) => viewAccountFor(receiptUrls, caller, account),
          ({ seq }) => cursors.next(pages, seq),
        ),
      };
    },
  });
}

export function showAccountRoute({ read, receiptUrls }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/providers/:id',
    operation: 'getProvider',
    summary: 'Show a provider account',
    description: 'Everything but its secrets, with the results of its recent calls and receipts.',
    tag: accountRouteTag,
    auth: accountRouteReader,
    params: IdParams,
    response: Provider,
    handler: async ({ caller, params, gone }) => {
      const { account, recent } = await read(caller.tenant.id, gone(), async (tx) => {
        const found = await requireAccount(caller, tx, params.id);
        return { account: found, recent: await readRecent(caller.tenant.id, tx, found.id) };
      });
      return { body: { ...viewAccountFor(receiptUrls, caller, account), recent } };
    },
  });
}
