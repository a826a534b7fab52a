import { z } from 'zod';
import { orNotFound } from '#core/domain/fault/app-error.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { MESSAGE_STATES } from '#core/domain/message/message-state.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { listAttempts, listEvents } from '#core/store/messages/message-history.ts';
import {
  findMessage,
  findMessageKey,
  scanMessages,
  type MessageAddress,
  type MessagePosition,
  type MessageKey,
  type MessageRow,
} from '#core/store/messages/messages.ts';
import { pageFrom, type Cursors } from '../http/lists/cursor.ts';
import { filteredPage } from '../http/lists/filtered-page.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import type { ReadTenant } from '../http/lists/reads.ts';
import { leavesOut } from './leaves-out.ts';
import { addressOf, modeFor } from './message-address.ts';
import { Attempt, toAttempt } from './attempt-view.ts';
import { acceptedEvent, Event, toEvent } from './event-view.ts';
import { Message } from './message-schema.ts';
import { toMessage } from './message-view.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { pageOf, pageQuery } from '../http/lists/page.ts';
import { recipientFilter, text, uuidField } from '../http/input/fields.ts';
import { utcTimeField } from '../http/input/time-field.ts';

export type ReadMessagesDeps = {
  readonly read: ReadTenant;
  readonly cursors: Cursors;
  readonly loadIds: LoadIds;
};

const auth = { kind: 'either', scope: 'messages:read', role: 'viewer' } as const;
const tag = 'Messages';

const METADATA_FILTERS_MAX = 5;

const filter = {
  status: z.enum(MESSAGE_STATES).optional().describe('Only messages in this state.'),
  channel: z.enum(CHANNELS).optional().describe('Only messages of this channel.'),
  to: recipientFilter(200).optional().describe('As sent, or in normalized form.'),
  externalId: text(1, 255).optional().describe('As given with the message.'),
  batchId: uuidField().optional().describe('Only messages of this batch.'),
  parentMessageId: uuidField().optional().describe('Only messages that send this message again.'),
  providerId: uuidField().optional().describe('Only messages of this provider account.'),
  tag: text(1, 64).optional().describe('One of the tags.'),
  metadata: z
    .record(text(1, 64), text(0, 500))
    .refine((pairs) => Object.keys(pairs).length <= METADATA_FILTERS_MAX, {
      params: { rule: 'max' },
      error: `Must have at most ${METADATA_FILTERS_MAX} pairs`,
    })
    .optional()
    .describe("Caller's own data, as `metadata[key]=value` or `metadata.key=value`; compared as text."),
  test: z
    .boolean()
    .optional()
    .describe('Messages of test keys, or of live keys. A key sees only messages of its own mode.'),
  since: utcTimeField().optional().describe('Enqueued at or after this time.'),
  until: utcTimeField().optional().describe('Enqueued before this time.'),
};

/** The routes that read messages, once for keys and once below `/v1/admin`; both accept either credential. */
export function readMessageRoutes(deps: ReadMessagesDeps): RouteModule {
  const routes = (['/v1/messages', '/v1/admin/messages'] as const).flatMap((base) => readsBelow(base, deps));
  return (app) => {
    for (const add of routes) add(app);
  };
}

const OPERATIONS = {
  '/v1/messages': {
    list: 'listMessages',
    get: 'getMessage',
    attempts: 'listMessageAttempts',
    events: 'listMessageEvents',
  },
  '/v1/admin/messages': {
    list: 'adminListMessages',
    get: 'adminGetMessage',
    attempts: 'adminListMessageAttempts',
    events: 'adminListMessageEvents',
  },
} as const;

function readsBelow(
  base: keyof typeof OPERATIONS,
  { read, cursors, loadIds }: ReadMessagesDeps,
): RouteModule[] {
  const operations = OPERATIONS[base];

  const list = defineRoute({
    method: 'GET',
    path: base,
    tag,
    operation: operations.list,
    summary: 'List messages, newest first',
    description:
      'A message must match all filters. A key lists the messages of its own mode, a person those of both modes. A page reads at most 5,000 messages or 100 ms: with a filter, or for a live key where many of the newest messages are test messages, it may be short, even empty, and still have a `nextCursor`; only null ends the list.',
    auth,
    query: z.object({ ...filter, ...pageQuery }),
    response: pageOf(Message),
    errors: ['invalid_cursor'],
    async handler({ caller, query: { limit, cursor, ...query }, gone }) {
      const { id: tenantId } = caller.tenant;
      const { providerId: accountId, parentMessageId: parentId, ...where } = query;
      const filter = { ...where, accountId, parentId, ...modeFor(caller, where.test) };
      // Tests break this (mutant: cursor-tenant): a cursor is valid for its own tenant only.
      const scope = ['messages', tenantId, filter];
      const before = cursors.position<MessagePosition>(scope, cursor);
      // A key asks for messages of the mode that it never sees.
      if (where.test !== undefined && where.test !== filter.test)
        return { body: { items: [], nextCursor: null } };
      const { rows, next } = await read(tenantId, gone(), (tx) =>
        filteredPage({
          limit,
          before,
          isFiltered: leavesOut(filter),
          positionOf: ({ enqueued_at, seq }: MessageRow) => ({ enqueuedAt: enqueued_at.toISOString(), seq }),
          scan: (range) => scanMessages(tenantId, tx, filter, range),
        }),
      );
      const nextCursor = cursors.next(scope, next);
      return { body: { items: rows.map(toMessage), nextCursor } };
    },
  });

  const one = defineRoute({
    method: 'GET',
    path: `${base}/:id`,
    tag,
    operation: operations.get,
    summary: 'Get a message with its current and final status',
    description: 'The whole record of one message, without its content.',
    auth,
    params: IdParams,
    response: Message,
    async handler({ caller, params, gone }) {
      const { id: tenantId } = caller.tenant;
      const address = await addressOf(loadIds, caller, params.id);
      const row = orNotFound(await read(tenantId, gone(), (tx) => findMessage(tenantId, tx, address)));
      return { body: toMessage(row) };
    },
  });

  const attempts = defineRoute({
    method: 'GET',
    path: `${base}/:id/attempts`,
    tag,
    operation: operations.attempts,
    summary: "List a message's provider calls, newest first",
    description: 'One entry for each call to a provider, and for each call that was postponed.',
    auth,
    params: IdParams,
    query: z.object(pageQuery),
    response: pageOf(Attempt),
    errors: ['invalid_cursor'],
    async handler({ caller, params, query: { limit, cursor }, gone }) {
      const { id: tenantId } = caller.tenant;
      const scope = ['attempts', tenantId, params.id];
      const before = cursors.position<number>(scope, cursor);
      const address = await addressOf(loadIds, caller, params.id);
      const rows = await read(tenantId, gone(), async (tx) =>
        listAttempts(tenantId, tx, await keyAt(tenantId, tx, address), { before, most: limit + 1 }),
      );
      return { body: pageFrom(rows, limit, toAttempt, ({ number }) => cursors.next(scope, number)) };
    },
  });

  const events = defineRoute({
    method: 'GET',
    path: `${base}/:id/events`,
    tag,
    operation: operations.events,
    summary: "List a message's events, newest first",
    description:
      'All events of a message, including receipts that changed nothing as long as the message has less than a thousand events.',
    auth,
    params: IdParams,
    query: z.object(pageQuery),
    response: pageOf(Event),
    errors: ['invalid_cursor'],
    async handler({ caller, params, query: { limit, cursor }, gone }) {
      const { id: tenantId } = caller.tenant;
      const scope = ['events', tenantId, params.id];
      const before = cursors.position<number>(scope, cursor);
      const address = await addressOf(loadIds, caller, params.id);
      const { events: ids } = await loadIds();
      const rows = await read(tenantId, gone(), async (tx) => {
        const key = await keyAt(tenantId, tx, address);
        const stored = await listEvents(tenantId, tx, key, { before, most: limit + 1 });
        const all = [...stored, acceptedEvent(key)];
        const { seq, purge_on: purgeOn } = key;
        const idsOfAll = ids.encode(all.map(({ event_seq: number }) => ({ seq, purgeOn, number })));
        return all.map((row, n) => ({ ...row, id: idsOfAll[n] ?? '' }));
      });
      return {
        body: pageFrom(rows, limit, toEvent, ({ event_seq }) => cursors.next(scope, event_seq)),
      };
    },
  });

  return [list, one, attempts, events];
}

async function keyAt(tenantId: TenantId, tx: TransactionSql, address: MessageAddress): Promise<MessageKey> {
  return orNotFound(await findMessageKey(tenantId, tx, address));
}
