import { z } from 'zod';
import { DELIVERY_STATUSES } from '#core/domain/webhooks/delivery-state.ts';
import { AppError, notFound, orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import { FEED_EVENT_PREFIXES, FEED_EVENT_TYPES } from '#core/domain/webhooks/feed-event.ts';
import type { Ids } from '#core/domain/storage/id-loader.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import {
  findDelivery,
  listCalls,
  recoverDeliveries,
  RECOVERED_MAX,
  redeliver,
  scanDeliveries,
  type Delivery as DeliveryRecord,
} from '#core/store/webhooks/endpoint-deliveries.ts';
import { feedStart } from '#core/store/webhooks/feed.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { findEndpointByNumber, type EndpointRecord } from '#core/store/webhooks/webhook-endpoints.ts';
import { changeTenant } from '../changes/change-tenant.ts';
import { iso } from '../http/iso.ts';
import { scopeOf } from '../changes/change-scope.ts';
import { filteredPage } from '../http/lists/filtered-page.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { pageOf, pageQuery } from '../http/lists/page.ts';
import { utcTimeField } from '../http/input/time-field.ts';
import { Delivery, DeliveryWithLog, Recovered, viewDelivery, viewLoggedCall } from './delivery-view.ts';
import { changeEndpoint, nameOf, requireEndpoint } from './endpoint-change.ts';
import type { WebhookDeps } from './webhook-deps.ts';

const tag = 'Webhooks';
const writer = { kind: 'bearer', role: 'admin' } as const;
const reader = { kind: 'bearer', role: 'viewer' } as const;

const RecoverDeliveries = z
  .object({
    since: utcTimeField().describe(
      "Only events that were added to the endpoint's feed at or after this time: usually within a second after they happened, and later if the service was behind.",
    ),
    until: utcTimeField()
      .nullable()
      .default(null)
      .describe("Only events that were added to the endpoint's feed before this time. Null: until now."),
  })
  .meta({
    id: 'RecoverDeliveries',
    description: 'Which events to deliver again.',
    examples: [{ since: '2026-01-15T09:00:00Z', until: '2026-01-15T12:00:00Z' }],
  });

/** The routes that list an endpoint's deliveries and redeliver events. */
export function deliveryRoutes(deps: WebhookDeps): RouteModule[] {
  return [list(deps), read(deps), again(deps), recover(deps)];
}

function list({ read, cursors, loadIds }: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/webhook-endpoints/:id/deliveries',
    operation: 'listWebhookDeliveries',
    summary: 'List the deliveries of an endpoint',
    description:
      'Newest first, each event once with its last call. Deliveries are kept as long as their events. A delivery must match all filters. A page reads at most 5,000 deliveries or 100 ms: with a filter it may be short, even empty, and still have a `nextCursor`; only null ends the list.',
    tag,
    auth: reader,
    params: IdParams,
    query: z.object({
      ...pageQuery,
      status: z.enum(DELIVERY_STATUSES).optional().describe('Only deliveries in this state.'),
      type: z
        .enum([...FEED_EVENT_TYPES, ...FEED_EVENT_PREFIXES])
        .optional()
        .describe('Only deliveries of events of this type, or with this prefix: `message.*`.'),
      since: utcTimeField().optional().describe('Only deliveries of events at or after this time.'),
      until: utcTimeField().optional().describe('Only deliveries of events before this time.'),
    }),
    response: pageOf(Delivery),
    errors: ['invalid_cursor'],
    handler: async ({ caller: { tenant }, params, query: { limit, cursor, ...filter }, gone }) => {
      const { since } = filter;
      const pages = { list: 'deliveries', of: tenant.id, endpoint: params.id, ...filter };
      const before = cursors.position<number>(pages, cursor);
      const ids = await loadIds();
      const { endpoint, rows, next } = await read(tenant.id, gone(), async (tx) => {
        const found = await requireEndpoint(tenant.id, tx, params.id);
        const floor = since === undefined ? 0 : await feedStart(tenant.id, tx, since, found.id);
        const page = await filteredPage({
          limit,
          before,
          isFiltered: [filter.status, filter.type, filter.until].some((value) => value !== undefined),
          positionOf: ({ seq }: DeliveryRecord) => seq,
          scan: (range) => scanDeliveries(tenant.id, tx, ids.events, found, { ...filter, floor }, range),
        });
        return { ...page, endpoint: found };
      });
      return {
        body: {
          items: rows.map((delivery) => viewDelivery(ids.deliveries, endpoint, delivery)),
          nextCursor: cursors.next(pages, next),
        },
      };
    },
  });
}

function read({ sql, loadIds }: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/deliveries/:id',
    operation: 'getWebhookDelivery',
    summary: 'Show a delivery with all of its calls',
    description: 'Available as long as its event is kept.',
    tag,
    auth: reader,
    params: IdParams,
    response: DeliveryWithLog,
    handler: async ({ caller: { tenant }, params }) => {
      const ids = await loadIds();
      const found = await withTenant(sql, tenant.id, async (tx) => {
        const { endpoint, delivery } = await requireDelivery(ids, tenant.id, tx, params.id);
        const calls = await listCalls(tenant.id, tx, endpoint.id, delivery.seq);
        return { ...viewDelivery(ids.deliveries, endpoint, delivery), attemptLog: calls.map(viewLoggedCall) };
      });
      return { body: found };
    },
  });
}

function again(deps: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/deliveries/:id/redeliver',
    operation: 'redeliverWebhook',
    summary: 'Deliver an event again',
    description:
      'The endpoint is called at once, or as soon as it can be called again, even if the delivery succeeded before. A delivery that is given up, or has succeeded, gets one call without retries. 409 `invalid_state` while a call is under way, and after 1,000 calls.',
    tag,
    auth: writer,
    params: IdParams,
    status: 202,
    response: Delivery,
    errors: ['invalid_state'],
    handler: async ({ caller, params, request }) => {
      const tenantId = caller.tenant.id;
      const ids = await deps.loadIds();
      const { endpoint, body } = await changeTenant(deps, scopeOf(caller, request), async ({ tx, audit }) => {
        const found = await requireDelivery(ids, tenantId, tx, params.id);
        const { seq } = found.delivery;
        const verdict = await redeliver(tenantId, tx, found.endpoint.id, seq);
        if (verdict === 'gone') throw notFound();
        if (verdict === 'in_flight') {
          throw new AppError('invalid_state', { message: 'The event is being delivered just now' });
        }
        if (verdict === 'worn') {
          throw new AppError('invalid_state', {
            message: 'The event was delivered 1,000 times, which is the most',
          });
        }
        await audit(
          'webhook_endpoint.redelivered',
          found.endpoint.id,
          { seq },
          { name: nameOf(found.endpoint) },
        );
        const delivery =
          (await findDelivery(tenantId, tx, ids.events, found.endpoint, seq)) ?? found.delivery;
        return { endpoint: found.endpoint, body: viewDelivery(ids.deliveries, found.endpoint, delivery) };
      });
      deps.notify('endpoint', { tenantId, id: endpoint.id, changed: 'due' });
      return { body };
    },
  });
}

function recover(deps: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/webhook-endpoints/:id/recover',
    operation: 'recoverWebhookDeliveries',
    summary: 'Deliver the missed events of an endpoint again',
    description: `Each event added in that time whose delivery was given up is delivered once more, as soon as the endpoint can be called. At most ${RECOVERED_MAX} events per request.`,
    tag,
    auth: writer,
    params: IdParams,
    body: RecoverDeliveries,
    status: 202,
    response: Recovered,
    handler: async ({ caller, params: { id }, body: { since, until }, request }) => {
      if (until !== null && until <= since) {
        throw validationFailed({ field: 'until', rule: 'min', message: 'Must be later than since' });
      }
      const tenantId = caller.tenant.id;
      const { recovered, nextSince } = await changeEndpoint(
        deps,
        { caller, id, request, changed: 'due' },
        async ({ tx, audit }, endpoint) => {
          const result = await recoverDeliveries(tenantId, tx, id, { since, until });
          const facts = { since, until, recovered: result.recovered };
          await audit('webhook_endpoint.recovered', id, facts, { name: nameOf(endpoint) });
          return result;
        },
      );
      return { body: { recovered, more: nextSince !== null, nextSince: iso(nextSince) } };
    },
  });
}

/** An id decodes to an endpoint and a number; it is valid only if the endpoint encodes to exactly this id. */
async function requireDelivery(
  ids: Ids,
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
): Promise<{ readonly endpoint: EndpointRecord; readonly delivery: DeliveryRecord }> {
  const place = orNotFound(ids.deliveries.decode(id));
  const endpoint = await findEndpointByNumber(tenantId, tx, place.endpoint);
  // One lookup and the same answer, whether the endpoint belongs to another tenant or does not exist.
  if (endpoint === undefined || ids.deliveries.encode(endpoint.id, place) !== id) throw notFound();
  const delivery = orNotFound(await findDelivery(tenantId, tx, ids.events, endpoint, place.seq));
  return { endpoint, delivery };
}
