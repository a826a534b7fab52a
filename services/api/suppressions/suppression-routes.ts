import { z } from 'zod';
import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import {
  deleteSuppression,
  findSuppression,
  putSuppression,
  scanSuppressions,
  type ListedSuppression,
} from '#core/store/suppressions/suppressions.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { changeTenant, createInTenant } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { AdminDeps } from '../admin/admin-deps.ts';
import type { DownloadLimits } from '../http/lists/download-time.ts';
import { filteredPage } from '../http/lists/filtered-page.ts';
import type { SharedSlots } from '../http/admission/shared-slots.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { pageOf, pageQuery } from '../http/lists/page.ts';
import { exportSuppressionsRoute } from './export-suppressions.ts';
import { importSuppressionsRoute } from './import-suppressions.ts';
import { checkSuppression, hasExpired, suppressionEntry } from './suppression-entry.ts';
import { factsOf, nameOf } from './suppression-facts.ts';
import { addressNames, suppressionFilter } from './suppression-filter.ts';
import { AddSuppression, Suppression, viewSuppression } from './suppression-schema.ts';

/** Dependencies of the routes of the suppression list. */
export type SuppressionDeps = AdminDeps & {
  readonly addressKeys: AddressKeyRoot;
  /** Slots of imports of this process: one per tenant, and few in all. */
  readonly imports: SharedSlots;
  /** Slots of exports of this process, each held for the whole download: one per tenant. */
  readonly exports: SharedSlots;
  /** Slots of the reads of exports, held only while the database is read. */
  readonly exportReads: SharedSlots;
  readonly downloadLimits: DownloadLimits;
};

const tag = 'Suppressions';
const auth = { kind: 'bearer', role: 'developer' } as const;

export function suppressionRoutes(deps: SuppressionDeps): RouteModule[] {
  return [
    add(deps),
    list(deps),
    read(deps),
    remove(deps),
    importSuppressionsRoute(deps),
    exportSuppressionsRoute(deps),
  ];
}

function add(deps: SuppressionDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/suppressions',
    operation: 'addSuppression',
    summary: 'Suppress a recipient',
    description:
      'After the 201 no worker takes a message to this recipient any more: it ends as `suppressed`, including scheduled and deferred messages. A message that a worker had taken by then may still be sent, usually within a second, and within a minute if a large content must be fetched first. A recipient has one entry for each reason: a new entry replaces it, under a new id.',
    tag,
    auth,
    idempotent: true,
    body: AddSuppression,
    status: 201,
    response: Suppression,
    errors: ['idempotency_mismatch'],
    handler: async ({ caller, body, idempotency, request }) => {
      const tenantId = caller.tenant.id;
      return createInTenant(deps, scopeOf(caller, request), idempotency, async ({ tx, audit }) => {
        // Checked only after the search for a replay: the entry's expiry may have passed when the request is repeated.
        const checked = checkSuppression(body);
        if ('rule' in checked) throw validationFailed(checked);
        if (hasExpired(checked, Date.now())) {
          throw validationFailed({ field: 'expiresAt', rule: 'min', message: 'Must lie in the future' });
        }
        const entry = suppressionEntry(deps.addressKeys, tenantId, 'api', checked);
        const stored = await putSuppression(tenantId, tx, entry);
        await audit('suppression.added', stored.id, factsOf(stored, entry.key), { name: nameOf(stored) });
        const view = viewSuppression(stored);
        return { status: 201, body: view, stored: view };
      });
    },
  });
}

function list({ read, cursors, addressKeys }: SuppressionDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/suppressions',
    operation: 'listSuppressions',
    summary: 'List suppressed recipients, or look one up',
    description:
      'Newest first: entries in force. `address` finds the entries of one recipient, including hashed ones. A page reads at most 5,000 entries or 100 ms: with a filter it may be short, even empty, and still have a `nextCursor`.',
    tag,
    auth,
    query: z.object({
      ...pageQuery,
      ...suppressionFilter,
    }),
    response: pageOf(Suppression),
    errors: ['invalid_cursor'],
    handler: async ({ caller: { tenant }, query: { limit, cursor, address, ...filter }, gone }) => {
      const pages = { list: 'suppressions', of: tenant.id, address, ...filter };
      const before = cursors.position<number>(pages, cursor);
      const addresses = address === undefined ? undefined : addressNames(addressKeys, tenant.id, address);
      const { rows, next } = await read(tenant.id, gone(), (tx) =>
        filteredPage({
          limit,
          before,
          isFiltered: Object.values(filter).some((value) => value !== undefined),
          positionOf: ({ seq }: ListedSuppression) => seq,
          scan: (range) => scanSuppressions(tenant.id, tx, { ...filter, addresses }, range),
        }),
      );
      return {
        body: {
          items: rows.map(viewSuppression),
          nextCursor: cursors.next(pages, next),
        },
      };
    },
  });
}

function read({ sql }: SuppressionDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/suppressions/:id',
    operation: 'getSuppression',
    summary: 'Show an entry of the suppression list',
    description: 'An expired entry is not found.',
    tag,
    auth,
    params: IdParams,
    response: Suppression,
    handler: async ({ caller: { tenant }, params }) => {
      const entry = orNotFound(
        await withTenant(sql, tenant.id, (tx) => findSuppression(tenant.id, tx, params.id)),
      );
      return { body: viewSuppression(entry) };
    },
  });
}

function remove(deps: SuppressionDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/suppressions/:id',
    operation: 'removeSuppression',
    summary: 'Remove an entry from the suppression list',
    description:
      'The recipient may have other entries, for other reasons. Messages that ended as `suppressed` keep that state.',
    tag,
    auth,
    params: IdParams,
    handler: async ({ caller, params: { id }, request }) => {
      await changeTenant(deps, scopeOf(caller, request), async ({ tx, audit }) => {
        const gone = orNotFound(await deleteSuppression(caller.tenant.id, tx, id));
        await audit('suppression.removed', id, {}, { name: nameOf(gone) });
      });
      return { body: undefined };
    },
  });
}
