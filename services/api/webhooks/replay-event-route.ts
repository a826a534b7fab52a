import { z } from 'zod';
import { AppError, notFound } from '#core/domain/fault/app-error.ts';
import { replayEvent } from '#core/store/webhooks/endpoint-deliveries.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { changeEndpoint, nameOf } from './endpoint-change.ts';
import type { WebhookDeps } from './webhook-deps.ts';
import { uuidField } from '../http/input/fields.ts';

const ENDPOINT_ID = '5d0c7a3e-2b41-4c6f-9e8d-7a6b5c4d3e2f';
const DELIVERY_ID = 'c4a1f0d2-6e5b-4a39-8b7c-1d2e3f4a5b6c';

const ReplayEvent = z
  .object({
    endpointId: uuidField().describe('The webhook endpoint that receives the event.'),
  })
  .meta({
    id: 'ReplayEvent',
    description: 'The endpoint that receives the event.',
    examples: [{ endpointId: ENDPOINT_ID }],
  });

const ReplayedEvent = z
  .object({ deliveryId: z.uuid().describe('Id for `GET /v1/admin/deliveries/{id}`.'), ...warningsField })
  .meta({
    id: 'ReplayedEvent',
    description: 'The delivery of a replayed event.',
    examples: [{ deliveryId: DELIVERY_ID }],
  });

/** Redelivers a single event to one endpoint. */
export function replayEventRoute(deps: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/events/:id/replay',
    operation: 'replayEvent',
    summary: 'Send an event to an endpoint again',
    description:
      "Uses the number that the event has in the endpoint's feed, like `redeliver`; if the endpoint's filters excluded the event, or it is older than the endpoint, it gets the next number and one call. 409 `invalid_state` while a call is under way, after 1,000 calls, and within the first minute of an event while it is not known yet whether the endpoint receives it anyway.",
    tag: 'Webhooks',
    auth: { kind: 'bearer', role: 'admin' },
    params: IdParams,
    body: ReplayEvent,
    status: 202,
    response: ReplayedEvent,
    errors: ['invalid_state'],
    handler: async ({ caller, params, body: { endpointId }, request }) => {
      const tenantId = caller.tenant.id;
      const ids = await deps.loadIds();
      const place = ids.events.decode(params.id);
      const deliveryId = await changeEndpoint(
        deps,
        { caller, id: endpointId, request, changed: 'due' },
        async ({ tx, audit }, endpoint) => {
          if (place === undefined) throw notFound();
          const { verdict, seq } = await replayEvent(tenantId, tx, endpointId, place);
          if (verdict === 'early') {
            const message = 'Whether the endpoint is told of the event anyway is known within a minute';
            throw new AppError('invalid_state', { message });
          }
          if (verdict === 'in_flight') {
            throw new AppError('invalid_state', { message: 'The event is being delivered just now' });
          }
          if (verdict === 'worn') {
            throw new AppError('invalid_state', {
              message: 'The event was delivered 1,000 times, which is the most',
            });
          }
          if (verdict === 'gone' || seq === null) throw notFound();
          const facts = { eventId: params.id, seq };
          await audit('webhook_endpoint.replayed', endpointId, facts, { name: nameOf(endpoint) });
          return ids.deliveries.encode(endpointId, { endpoint: endpoint.number, seq });
        },
      );
      return { body: { deliveryId } };
    },
  });
}
