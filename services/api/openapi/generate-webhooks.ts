import { WEBHOOK_EVENT_SCHEMAS } from '#core/domain/webhooks/event-schemas.ts';
import {
  WEBHOOK_EVENT_TYPES,
  WEBHOOK_EVENTS,
  type WebhookEventType,
} from '#core/domain/webhooks/feed-event.ts';
import { exampleOf } from '../http/example-of.ts';
import type { Json } from './generate-schemas.ts';

/**
 * Describes every event type as an OpenAPI 3.1 webhook. The operations are in `components.pathItems` and `webhooks` refers
 * to them: from operations directly in `webhooks`, openapi-generator makes client calls, which do not compile in Python.
 */
export function describeWebhooks(): { readonly webhooks: Json; readonly pathItems: Json } {
  const named = WEBHOOK_EVENT_TYPES.map(
    (type) => [type, String(WEBHOOK_EVENT_SCHEMAS[type].meta()?.id)] as const,
  );
  const webhooks = named.map(([type, id]) => [type, { $ref: `#/components/pathItems/${id}` }]);
  const pathItems = named.map(([type, id]) => [id, { post: describeEvent(type) }]);
  return { webhooks: Object.fromEntries(webhooks) as Json, pathItems: Object.fromEntries(pathItems) as Json };
}

function describeEvent(type: WebhookEventType): Json {
  const schema = WEBHOOK_EVENT_SCHEMAS[type];
  const { id } = schema.meta() ?? {};
  const content = { schema: { $ref: `#/components/schemas/${id}` }, example: exampleOf(schema) };
  return {
    operationId: `on${id}`,
    summary: WEBHOOK_EVENTS[type],
    description:
      type === 'test.ping'
        ? 'The event that `testWebhookEndpoint` sends.'
        : 'The envelope of an event, the same as in `GET /v1/events`.',
    tags: ['Events'],
    security: [],
    requestBody: { required: true, content: { 'application/json': content } },
    responses: { '204': { description: 'The event was accepted.' } },
  };
}
