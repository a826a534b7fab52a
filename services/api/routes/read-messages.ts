import { z } from 'zod';
import { notFound } from '#core/domain/app-error.ts';
import { CHANNELS } from '#core/domain/channel.ts';
import { MESSAGE_STATES } from '#core/domain/message-state.ts';
import type { TransactionSql, Sql } from '#core/platform/postgres.ts';
import {
  findMessage,
  findMessageKey,
  listAttempts,
  listEvents,
  listMessages,
  type MessagePosition,
  type MessageKey,
} from '#core/store/messages.ts';
import type { TenantId } from '#core/domain/ids.ts';
import { withTenant } from '#core/store/tenant-scope.ts';
import { pageFrom, type Cursors } from '../cursor.ts';
import {
  Attempt,
  Message,
  MessageEvent,
  queuedEvent,
  toAttempt,
  toEvent,
  toMessage,
} from '../message-view.ts';
import { defineRoute, IdParams, pageOf, pageQuery, type RouteModule } from '../routes-kit.ts';
import { text } from '../fields.ts';
import { timeField } from '../time-field.ts';

export type ReadMessagesDeps = { readonly sql: Sql; readonly cursors: Cursors };

const auth = { kind: 'either', scope: 'messages:read', role: 'viewer' } as const;
const tag = 'Messages';

/** In UTC: the database does not know all the time zones that ISO 8601 does. */
const utcTime = () => timeField().transform((time) => new Date(time).toISOString());

const filter = {
  status: z.enum(MESSAGE_STATES).optional(),
  channel: z.enum(CHANNELS).optional(),
  to: text(1, 200).optional().describe('As sent, or in its normal form.'),
  externalId: text(1, 255).optional(),
  providerId: z
    .uuid()
    .transform((id) => id.toLowerCase())
    .optional(),
  since: utcTime().optional().describe('Enqueued at or after.'),
  until: utcTime().optional().describe('Enqueued before.'),
};

/** The reads of messages, once for keys and once below `/v1/admin`; both take both credentials. */
export function readMessageRoutes(deps: ReadMessagesDeps): RouteModule {
  const routes = (['/v1/messages', '/v1/admin/messages'] as const).flatMap((base) => readsBelow(base, deps));
  return (app) => {
    for (const add of routes) add(app);
  };
}

function readsBelow(
  base: '/v1/messages' | '/v1/admin/messages',
  { sql, cursors }: ReadMessagesDeps,
): RouteModule[] {
  const list = defineRoute({
    method: 'GET',
    path: base,
    tag,
    summary: 'List messages, newest first',
    auth,
    query: z.object({ ...filter, ...pageQuery }),
    response: pageOf(Message),
    errors: ['invalid_cursor'],
    async handler({ caller, query: { limit, cursor, ...where } }) {
      const { id: tenantId } = caller.tenant;
      const scope = ['messages', tenantId, where];
      const before =
        cursor === undefined ? undefined : (JSON.parse(cursors.open(scope, cursor)) as MessagePosition);
      const rows = await withTenant(sql, tenantId, (tx) =>
        listMessages(tenantId, tx, where, { before, most: limit + 1 }),
      );
      return {
        body: pageFrom(rows, limit, toMessage, ({ enqueued_at, seq }) => {
          const position: MessagePosition = { enqueuedAt: enqueued_at.toISOString(), seq };
          return cursors.seal(scope, JSON.stringify(position));
        }),
      };
    },
  });

  const one = defineRoute({
    method: 'GET',
    path: `${base}/:id`,
    tag,
    summary: 'Get a message with its current and final status',
    auth,
    params: IdParams,
    response: Message,
    async handler({ caller, params }) {
      const { id: tenantId } = caller.tenant;
      const row = await withTenant(sql, tenantId, (tx) => findMessage(tenantId, tx, params.id));
      if (row === undefined) throw notFound();
      return { body: toMessage(row) };
    },
  });

  const attempts = defineRoute({
    method: 'GET',
    path: `${base}/:id/attempts`,
    tag,
    summary: "List a message's provider calls, newest first",
    auth,
    params: IdParams,
    query: z.object(pageQuery),
    response: pageOf(Attempt),
    errors: ['invalid_cursor'],
    async handler({ caller, params, query: { limit, cursor } }) {
      const { id: tenantId } = caller.tenant;
      const scope = ['attempts', tenantId, params.id];
      const before = cursor === undefined ? undefined : Number(cursors.open(scope, cursor));
      const rows = await withTenant(sql, tenantId, async (tx) =>
        listAttempts(tenantId, tx, await keyOf(tenantId, tx, params.id), { before, most: limit + 1 }),
      );
      return { body: pageFrom(rows, limit, toAttempt, ({ number }) => cursors.seal(scope, String(number))) };
    },
  });

  const events = defineRoute({
    method: 'GET',
    path: `${base}/:id/events`,
    tag,
    summary: "List a message's events, newest first",
    auth,
    params: IdParams,
    query: z.object(pageQuery),
    response: pageOf(MessageEvent),
    errors: ['invalid_cursor'],
    async handler({ caller, params, query: { limit, cursor } }) {
      const { id: tenantId } = caller.tenant;
      const scope = ['events', tenantId, params.id];
      const before = cursor === undefined ? undefined : Number(cursors.open(scope, cursor));
      const rows = await withTenant(sql, tenantId, async (tx) => {
        const key = await keyOf(tenantId, tx, params.id);
        const stored = await listEvents(tenantId, tx, key, { before, most: limit + 1 });
        return [...stored, queuedEvent(key)];
      });
      return { body: pageFrom(rows, limit, toEvent, ({ seq }) => cursors.seal(scope, String(seq))) };
    },
  });

  return [list, one, attempts, events];
}

async function keyOf(tenantId: TenantId, tx: TransactionSql, id: string): Promise<MessageKey> {
  const key = await findMessageKey(tenantId, tx, id);
  if (key === undefined) throw notFound();
  return key;
}
