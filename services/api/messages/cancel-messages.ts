import { z } from 'zod';
import { validationFailed } from '#core/domain/fault/app-error.ts';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import type { AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import { CHANNELS, type Channel } from '#core/domain/message/channel.ts';
import { chunks } from '#core/domain/chunks.ts';
import { addCancels, countCancels, decideCancel, NO_CANCELS } from '#core/domain/sending/decide-cancel.ts';
import { CATEGORIES } from '#core/domain/message/message-options.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import { WARNINGS_MAX, type Warnings } from '#core/domain/fault/warning.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { CancelMeans } from '#core/platform/telemetry/api-metrics.ts';
import {
  cancelMessages,
  findCancelable,
  type Cancelable,
  type LivePosition,
} from '#core/store/messages/cancellation.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { assertMemberUntilCommit } from '../auth/assert-member.ts';
import { auditTo } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { KeyCaller, MemberCaller } from '../auth/auth.ts';
import { text, uuidField } from '../http/input/fields.ts';
import type { Cursors } from '../http/lists/cursor.ts';
import type { ReadTenant } from '../http/lists/reads.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RequestFacts, RouteModule } from '../http/routes/route.ts';
import { inSlot, type SharedSlots } from '../http/admission/shared-slots.ts';
import { modeFor } from './message-address.ts';

export type CancelMessagesDeps = {
  readonly sql: Sql;
  readonly read: ReadTenant;
  readonly cursors: Cursors;
  readonly slots: SharedSlots;
  readonly audit: AuditTrail;
  readonly metrics: { readonly canceled: (channel: Channel, by: CancelMeans) => void };
};

/** Maximum messages per call. */
const MESSAGES_MAX = 10_000;
/** Messages per transaction: a claim that meets one of them waits for the commit, together with other tenants' messages. */
const AT_ONCE = 200;
/** Time limit of the search, well below that of a read. Messages found by then are canceled. */
const FIND_MS_MAX = 1_000;
/** After this time a call answers with what it has done so far. */
const CALL_MS_MAX = 10_000;

const CRITERIA = ['batchId', 'externalId', 'tag', 'channel', 'category'] as const;

const CancelMessages = z
  .object({
    filter: z
      .object({
        batchId: uuidField().optional().describe('As returned by `POST /v1/messages/batch`.'),
        externalId: text(1, 255).optional().describe('As given with the message.'),
        tag: text(1, 64).optional().describe('One of the tags.'),
        channel: z.enum(CHANNELS).optional(),
        category: z.enum(CATEGORIES).optional(),
      })
      .refine((filter) => CRITERIA.some((name) => filter[name] !== undefined), {
        params: { rule: 'min' },
        error: `Must have at least one of ${CRITERIA.join(', ')}`,
      })
      .describe(
        'At least one; a message must match all of them. An unknown field is refused, because without it more messages would be canceled.',
      ),
    cursor: z
      .string()
      .min(1)
      .max(500)
      .optional()
      .describe(
        '`nextCursor` of the previous call with the same filter: skips the messages that it has already read.',
      ),
  })
  .meta({
    id: 'CancelMessages',
    description: 'Which messages to cancel.',
    examples: [{ filter: { tag: 'spring-sale', channel: 'sms' } }],
  });

const count = z.int().min(0).max(MESSAGES_MAX);
const CanceledMessages = z
  .object({
    canceled: count.describe('Messages that this call has canceled: no further call begins for them.'),
    alreadySending: count.describe('Messages with a call under way, which cannot be canceled.'),
    final: count.describe(
      'Messages that were sent or are final: with `batchId` or `externalId` all that have it, else those that ended during this call.',
    ),
    more: z
      .boolean()
      .describe('There may be more matching messages: repeat the call, with `nextCursor` if present.'),
    nextCursor: z
      .string()
      .optional()
      .describe(
        '`cursor` of the next call, if so many messages wait that not all could be read. Else absent.',
      ),
    ...warningsField,
  })
  .meta({
    id: 'CanceledMessages',
    description: 'Result of canceling many messages.',
    examples: [
      {
        canceled: 1280,
        alreadySending: 3,
        final: 0,
        more: true,
        nextCursor: 'hJ3hVw0yq3O1bq4fM2b7Y1siYWNjb3VudElkIjoi',
      },
    ],
  });

/** `POST /v1/messages/cancel`: finds the messages once with a bounded read and cancels them in short transactions. */
export function cancelMessagesRoute(deps: CancelMessagesDeps): RouteModule {
  const { sql, read, cursors, slots, metrics } = deps;

  function countByChannel(part: readonly Cancelable[], found: ReadonlyMap<number, MessageState>): void {
    for (const { seq, channel } of part) {
      const state = found.get(seq);
      if (state !== undefined && isCanceledNow(state)) metrics.canceled(channel, 'filter');
    }
  }

  return defineRoute({
    method: 'POST',
    path: '/v1/messages/cancel',
    tag: 'Messages',
    operation: 'cancelMessages',
    summary: 'Cancel all waiting messages that match a filter',
    description:
      'Cancels messages that are `scheduled`, `queued`, `deferred` or `held`, each as `POST /v1/messages/{id}/cancel` does, at most 10,000 per call and the oldest first. If hundreds of thousands wait, a call reads them for at most a second, and `nextCursor` continues. Messages that are accepted in the meantime are not included. A key cancels only messages of its own mode. The counts include only what is committed.',
    auth: { kind: 'either', scope: 'messages:send', role: 'developer', countsChanges: true },
    body: CancelMessages,
    response: CanceledMessages,
    errors: ['invalid_cursor'],
    async handler({ caller, body: { filter, cursor }, request, warnings, gone }) {
      assertKnown(warnings);
      const { id: tenantId } = caller.tenant;
      const signal = gone();
      const until = performance.now() + CALL_MS_MAX;
      const fitting = { ...filter, ...modeFor(caller) };
      const search = ['cancel', tenantId, fitting];
      const from = cursors.position<LivePosition>(search, cursor);
      const { live, ended, stoppedAt } = await read(tenantId, signal, (tx) =>
        findCancelable(tenantId, tx, fitting, { most: MESSAGES_MAX + 1, ms: FIND_MS_MAX, from }),
      );
      const tell = auditor(deps, caller, request, filter);
      let counts = NO_CANCELS;
      let done = 0;
      for (const part of chunks(live.slice(0, MESSAGES_MAX), AT_ONCE)) {
        if (signal.aborted || performance.now() > until) break;
        try {
          // Each transaction waits for a slot, so that a call with thousands of messages does not block other cancels.
          const cancel = () =>
            withTenant(sql, tenantId, async (tx) => {
              if (caller.kind === 'member') await assertMemberUntilCommit(tx, caller, request);
              return cancelPart(tx, part, tell);
            });
          const found = await inSlot(slots, tenantId, cancel, signal);
          counts = addCancels(counts, countCancels(part.length, found.values()));
          countByChannel(part, found);
        } catch (error) {
          // Reports what is committed; the next call can cancel the rest.
          if (done === 0) throw error;
          break;
        }
        done += part.length;
      }
      const final = Math.min(counts.final + ended, MESSAGES_MAX);
      const isDone = done === live.length;
      const next = isDone ? stoppedAt : from;
      const more = !isDone || stoppedAt !== undefined;
      const nextCursor = more ? cursors.next(search, next) : null;
      return {
        body: { ...counts, final, more, ...(nextCursor === null ? {} : { nextCursor }) },
      };
    },
  });
}

/**
 * Cancels the messages of one transaction; a result replaces each of them. The first transaction that cancels any message
 * also writes the audit entry.
 */
async function cancelPart(
  tx: TransactionSql,
  part: readonly Cancelable[],
  tell: (tx: TransactionSql) => Promise<void>,
): Promise<ReadonlyMap<number, MessageState>> {
  const found = await cancelMessages(
    tx,
    part.map(({ seq }) => seq),
  );
  if ([...found.values()].some(isCanceledNow)) await tell(tx);
  return found;
}

function isCanceledNow(state: MessageState): boolean {
  return decideCancel(state) === 'cancel';
}

/** Writes one audit entry per call with the requested criteria; none for a key. */
function auditor(
  { audit }: CancelMessagesDeps,
  caller: KeyCaller | MemberCaller,
  request: RequestFacts,
  filter: z.output<typeof CancelMessages>['filter'],
): (tx: TransactionSql) => Promise<void> {
  let isTold = caller.kind === 'key';
  return async (tx) => {
    if (isTold || caller.kind === 'key') return;
    isTold = true;
    const changes = auditChanges({}, filter);
    const scope = scopeOf(caller, request);
    await auditTo({ tx, trail: audit }, scope)('messages.canceled', caller.tenant.id, {}, { changes });
  };
}

/** @throws AppError: if an unknown criterion were ignored, more messages would be canceled than intended. */
function assertKnown(warnings: Warnings): void {
  const list = warnings.list();
  const unknown = list.find(({ field }) => field.startsWith('filter.')) ?? list[WARNINGS_MAX];
  if (unknown === undefined) return;
  const message = `Is not known here; messages are chosen by ${CRITERIA.join(', ')}`;
  throw validationFailed({ field: unknown.field, rule: 'unknown', message });
}
