import { z } from 'zod';
import { notFound } from '#core/domain/fault/app-error.ts';
import { toEnvelope } from '#core/domain/webhooks/event-envelope.ts';
import { EVENT_SCHEMAS, SEQ_MAX, WEBHOOK_EVENT_SCHEMAS } from '#core/domain/webhooks/event-schemas.ts';
import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import {
  FEED_EVENT_PREFIXES,
  FEED_EVENT_TYPES,
  WEBHOOK_EVENT_TYPES,
  WEBHOOK_EVENTS,
  type WebhookEventType,
} from '#core/domain/webhooks/feed-event.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import { maskedEvent } from '#core/domain/recipient/masked-event.ts';
import { feedEnd, feedStart, scanFeed } from '#core/store/webhooks/feed.ts';
import { masksRecipients } from '#core/store/webhooks/webhook-endpoints.ts';
import type { KeyCaller, MemberCaller } from '../auth/auth.ts';
import type { Cursors } from '../http/lists/cursor.ts';
import { filteredPage } from '../http/lists/filtered-page.ts';
import type { ReadTenant } from '../http/lists/reads.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { exampleOf } from '../http/example-of.ts';
import { PAGE_SIZE_MAX, pageOf, pageQuery } from '../http/lists/page.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { utcTimeField } from '../http/input/time-field.ts';
import { standaloneSchema } from './standalone-schema.ts';
import { uuidField } from '../http/input/fields.ts';

export type ReadEventsDeps = {
  readonly read: ReadTenant;
  readonly cursors: Cursors;
  readonly loadIds: LoadIds;
};

const tag = 'Events';

const schemas = FEED_EVENT_TYPES.map((type) => EVENT_SCHEMAS[type]);
const FeedEvent = z
  .discriminatedUnion('type', schemas as [(typeof schemas)[number], ...(typeof schemas)[number][]])
  .meta({ id: 'FeedEvent', description: 'An event; `type` determines its data.' });

const FeedPage = z
  .object({
    items: z.array(FeedEvent).max(PAGE_SIZE_MAX),
    nextCursor: z
      .string()
      .nullable()
      .describe(
        '`cursor` of the next page; null if there are no more events yet: then call again with `afterSeq`.',
      ),
    lastSeq: z
      .int()
      .min(0)
      .max(SEQ_MAX)
      .describe(
        'The last number that was read, whether it matched the filter or not: `afterSeq` of the next call. Lower than `afterSeq` of this call if the feed ends before it, which happens only after the database has lost its last events.',
      ),
    ...warningsField,
  })
  .meta({
    id: 'FeedPage',
    description: "One page of a tenant's events, the oldest first.",
    examples: [{ items: [exampleOf(EVENT_SCHEMAS['message.delivered'])], nextCursor: null, lastSeq: 1_042 }],
  });

const EventType = z
  .object({
    type: z.enum(WEBHOOK_EVENT_TYPES),
    description: z.string(),
    schema: z.record(z.string(), z.unknown()).describe('JSON Schema of its envelope.'),
  })
  .meta({ id: 'EventType', description: 'An event type.', examples: [typeOf('message.sent')] });

const query = z.object({
  limit: pageQuery.limit,
  cursor: pageQuery.cursor,
  afterSeq: z
    .int()
    .min(0)
    .max(SEQ_MAX)
    .optional()
    .describe(
      'Only events with a higher number: `lastSeq` of the previous call. If absent, starts with the first event that is kept.',
    ),
  type: z
    .enum([...FEED_EVENT_TYPES, ...FEED_EVENT_PREFIXES])
    .optional()
    .describe('Only events of this type, or with this prefix: `message.*`.'),
  since: utcTimeField().optional().describe('Only events at or after this time.'),
  endpointId: uuidField()
    .optional()
    .describe(
      'Only events that this webhook endpoint receives, with its own numbers: `data.seq`, `afterSeq` and `lastSeq` are those of its own feed, and recipients are masked if the endpoint has `maskRecipients`.',
    ),
});

const DESCRIPTION =
  'The oldest first, in the order of `data.seq`; each event occurs exactly once and is kept as long as its message. To follow the feed, call again with `afterSeq` set to the `lastSeq` of the answer. A page reads at most 5,000 events or 100 ms: with a filter it may be short, even empty, and still have a `nextCursor`.';

/** Routes that read the feed, for keys and for people, and list the event types. */
export function readEventRoutes({ read, cursors, loadIds }: ReadEventsDeps): RouteModule {
  async function page(
    { tenant: { id: tenantId } }: KeyCaller | MemberCaller,
    { limit, cursor, afterSeq, type, since, endpointId }: z.output<typeof query>,
    gone: AbortSignal,
    test?: boolean,
  ) {
    const filter = { type, since, test, endpointId };
    // Tests break this (mutant: feed-cursor): a cursor is valid for its own tenant, endpoint and filter only.
    const scope = ['feed', tenantId, filter, afterSeq];
    const from = cursors.position<number>(scope, cursor);
    const { events: ids } = await loadIds();
    const found = await read(tenantId, gone, async (tx) => {
      const isMasked = endpointId === undefined ? false : await masksRecipients(tenantId, tx, endpointId);
      // One query and the same answer, whether the endpoint is another tenant's or does not exist.
      if (isMasked === undefined) throw notFound();
      const start =
        from ??
        Math.max(afterSeq ?? 0, since === undefined ? 0 : await feedStart(tenantId, tx, since, endpointId));
      const { rows, next, end } = await filteredPage({
        limit,
        before: start,
        isFiltered: [type, since, test].some((value) => value !== undefined),
        positionOf: ({ seq }: StoredEvent) => seq,
        scan: (range) => scanFeed(tenantId, tx, ids, filter, range),
      });
      const read = end ?? start;
      // The feed may end before `afterSeq` if a failover lost the last events. It goes on from its end, and so must its readers.
      // A restore that loses more advances the numbers of the feed instead (`deploy/docs/backup-and-restore.md`).
      const lastSeq = read > start ? read : Math.min(start, await feedEnd(tenantId, tx, endpointId));
      return { rows: isMasked ? rows.map(maskedEvent) : rows, next, lastSeq };
    });
    return {
      body: {
        items: found.rows.map(toEnvelope),
        nextCursor: cursors.next(scope, found.next),
        lastSeq: found.lastSeq,
      },
    };
  }

  const forKeys = defineRoute({
    method: 'GET',
    path: '/v1/events',
    tag,
    operation: 'listEvents',
    summary: "Read the tenant's events",
    description: `${DESCRIPTION} A live key reads events of live messages, of provider accounts and of the tenant, a test key only events of test messages: the numbers between them belong to other events, and a page among those may be short too.`,
    auth: { kind: 'key', scope: 'events:read' },
    query,
    response: FeedPage,
    errors: ['invalid_cursor', 'not_found'],
    handler: ({ caller, query: asked, gone }) => page(caller, asked, gone(), caller.key.mode === 'test'),
  });
  const forPeople = defineRoute({
    method: 'GET',
    path: '/v1/admin/events',
    tag,
    operation: 'adminListEvents',
    summary: "Read the tenant's events",
    description: `${DESCRIPTION} People read all events; \`data.test\` marks those of test messages.`,
    auth: { kind: 'bearer', role: 'viewer' },
    query,
    response: FeedPage,
    errors: ['invalid_cursor', 'not_found'],
    handler: ({ caller, query: asked, gone }) => page(caller, asked, gone()),
  });
  const items = WEBHOOK_EVENT_TYPES.map(typeOf);
  const types = defineRoute({
    method: 'GET',
    path: '/v1/admin/event-types',
    tag,
    operation: 'listEventTypes',
    summary: 'List the event types',
    description:
      'Each type has a JSON Schema of its envelope. All types are on one page. `testWebhookEndpoint` sends `test.ping`, which is in no feed.',
    auth: { kind: 'bearer', role: 'viewer' },
    response: pageOf(EventType),
    handler: async () => ({ body: { items, nextCursor: null } }),
  });
  return (app) => {
    for (const add of [forKeys, forPeople, types]) add(app);
  };
}

function typeOf(type: WebhookEventType) {
  const schema = standaloneSchema(z.toJSONSchema(WEBHOOK_EVENT_SCHEMAS[type], { io: 'output' }));
  return { type, description: WEBHOOK_EVENTS[type], schema };
}
