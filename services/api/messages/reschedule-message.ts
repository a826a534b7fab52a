import { z } from 'zod';
import { AppError, orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import type { AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import { decideReschedule, RESCHEDULES_MAX } from '#core/domain/message/schedule.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { findMessage, type MessageRow } from '#core/store/messages/messages.ts';
import {
  countReschedules,
  lockSchedule,
  storeSchedule,
  type LockedSchedule,
} from '#core/store/messages/schedule.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { assertMemberUntilCommit } from '../auth/assert-member.ts';
import { auditTo } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { inSlot, type SharedSlots } from '../http/admission/shared-slots.ts';
import { timeField } from '../http/input/time-field.ts';
import { addressOf } from './message-address.ts';
import { Message } from './message-schema.ts';
import { toMessage } from './message-view.ts';
import { tooFar } from './new-message.ts';
import { SendMessage } from './send-message-schema.ts';

export type RescheduleMessageDeps = {
  readonly sql: Sql;
  readonly loadIds: LoadIds;
  /** A share of the connections for changes. */
  readonly slots: SharedSlots;
  readonly audit: AuditTrail;
};

const RescheduleMessage = z
  .object({
    sendAt: timeField().describe('When to send the message. A time in the past: at once.'),
  })
  .meta({
    id: 'RescheduleMessage',
    description: 'A new time for a scheduled message.',
    examples: [{ sendAt: '2026-01-15T09:30:00.000Z' }],
  });

/** `PATCH /v1/messages/:id`. A worker that moves the message on must lock the same row. */
export function rescheduleMessageRoute({ sql, loadIds, slots, audit }: RescheduleMessageDeps): RouteModule {
  return defineRoute({
    method: 'PATCH',
    path: '/v1/messages/:id',
    tag: 'Messages',
    operation: 'rescheduleMessage',
    summary: 'Send a scheduled message at another time',
    description:
      'Moves the `sendAt` of a message that is `scheduled`, and its `expiresAt` along with it. Returns 409 `invalid_state` once its time has come, in any other state, and after 100 moves. The new time must be within `scheduleHorizonDays` from now and must leave the record its `retentionDays`: a message can always be moved to an earlier time, and to a time up to a week after the first one.',
    auth: { kind: 'either', scope: 'messages:send', role: 'developer', countsChanges: true },
    params: IdParams,
    body: RescheduleMessage,
    made: SendMessage,
    response: Message,
    errors: ['invalid_state'],
    async handler({ caller, params, body, request, gone }) {
      const { id: tenantId, limits } = caller.tenant;
      const address = await addressOf(loadIds, caller, params.id);
      const reschedule = async (tx: TransactionSql) => {
        if (caller.kind === 'member') await assertMemberUntilCommit(tx, caller, request);
        const found = await lockSchedule(tx, address.seq);
        // Read after the lock: a change of the test clock also moves this message, and has either committed or waits for
        // the lock.
        const before = orNotFound(await findMessage(tenantId, tx, address));
        if (before.status !== 'scheduled') throw notScheduled(before.status);
        const aheadMs = before.ahead_ms ?? 0;
        const moves = await countReschedules(tenantId, tx, before.seq, before.purge_on);
        const next = nextSchedule(before, found, moves, Date.parse(body.sendAt) - aheadMs, limits);
        if (next === 'unchanged') return before;
        await storeSchedule(tx, before.seq, next, next.sendAt + aheadMs);
        const after = orNotFound(await findMessage(tenantId, tx, address));
        if (caller.kind === 'member') {
          const changes = auditChanges(
            { sendAt: before.scheduled_at?.toISOString() },
            { sendAt: after.scheduled_at?.toISOString() },
          );
          await auditTo({ tx, trail: audit }, scopeOf(caller, request))(
            'message.rescheduled',
            after.id,
            {},
            { changes },
          );
        }
        return after;
      };
      const row = await inSlot(slots, tenantId, () => withTenant(sql, tenantId, reschedule), gone());
      return { body: toMessage(row), messageId: row.id };
    },
  });
}

/** @throws AppError when the message cannot be moved, after which the transaction changes nothing. */
function nextSchedule(
  { purge_on: purgeOn, status, ahead_ms: aheadMs }: MessageRow,
  found: LockedSchedule | undefined,
  moves: number,
  sendAt: number,
  limits: Limits,
): { readonly sendAt: number; readonly expiresAt: number } | 'unchanged' {
  if (found === undefined || found.sendAt === null || found.retentionDays === null)
    throw notScheduled(found?.status ?? status);
  const message = {
    status: found.status,
    sendAt: found.sendAt.getTime(),
    expiresAt: found.expiresAt.getTime(),
    isDue: found.isDue === true,
    purgeOn,
    retentionDays: found.retentionDays,
    moves,
  };
  const decision = decideReschedule(message, sendAt, found.now.getTime(), limits);
  switch (decision.kind) {
    case 'move':
      return decision;
    case 'unchanged':
      return 'unchanged';
    case 'not_scheduled':
      throw notScheduled(found.status);
    case 'worn': {
      const message = `The message was moved ${RESCHEDULES_MAX} times, which is the most`;
      throw new AppError('invalid_state', { message });
    }
    case 'too_far':
      throw tooFar(limits.scheduleHorizonDays);
    case 'no_place': {
      const latest = new Date(decision.latest + (aheadMs ?? 0)).toISOString();
      const message = `Must not lie after ${latest}, or its record would not be kept for ${found.retentionDays} days`;
      throw validationFailed({ field: 'sendAt', rule: 'max', message });
    }
  }
}

function notScheduled(status: MessageState): AppError {
  const message =
    status === 'scheduled'
      ? 'The time of this message has come'
      : `Message is not scheduled: it is '${status}'`;
  return new AppError('invalid_state', { message });
}
