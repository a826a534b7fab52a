import { AppError, orNotFound } from '#core/domain/fault/app-error.ts';
import type { AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import { decideCancel } from '#core/domain/sending/decide-cancel.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { CancelMeans } from '#core/platform/telemetry/api-metrics.ts';
import { cancelMessages } from '#core/store/messages/cancellation.ts';
import { findMessage, type MessageRow } from '#core/store/messages/messages.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { assertMemberUntilCommit } from '../auth/assert-member.ts';
import { auditTo } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { inSlot, type SharedSlots } from '../http/admission/shared-slots.ts';
import { addressOf } from './message-address.ts';
import { Message } from './message-schema.ts';
import { toMessage } from './message-view.ts';

export type CancelMessageDeps = {
  readonly sql: Sql;
  readonly loadIds: LoadIds;
  /** A share of the connections for changes. */
  readonly slots: SharedSlots;
  readonly audit: AuditTrail;
  readonly metrics: { readonly canceled: (channel: Channel, by: CancelMeans) => void };
};

/** `POST /v1/messages/:id/cancel`. The commit before a 200 locks the row that a claim would have to update. */
export function cancelMessageRoute({ sql, loadIds, slots, audit, metrics }: CancelMessageDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/messages/:id/cancel',
    tag: 'Messages',
    operation: 'cancelMessage',
    summary: 'Cancel a waiting message',
    description:
      "Cancels a message that is `scheduled`, `queued`, `deferred` or `held`: after the 200, no further call to a provider begins for it. Returns 409 `not_cancelable` for a message that is `sending`, that a provider has accepted, even if it waits for another account because no receipt arrived in time, or that is final. Canceling it again returns 200 again. The day's quota is not restored.",
    auth: { kind: 'either', scope: 'messages:send', role: 'developer' },
    params: IdParams,
    response: Message,
    errors: ['not_cancelable'],
    async handler({ caller, params, request, gone }) {
      const { id: tenantId } = caller.tenant;
      const address = await addressOf(loadIds, caller, params.id);
      const cancel = async (tx: TransactionSql) => {
        if (caller.kind === 'member') await assertMemberUntilCommit(tx, caller, request);
        const before = orNotFound(await findMessage(tenantId, tx, address));
        if (decideCancel(before.status) !== 'cancel') return { row: assertCanceled(before), isNew: false };
        const found = (await cancelMessages(tx, [before.seq])).get(before.seq);
        // The state in which the row was found when it was locked decides: the message may have been claimed since the
        // first read, and may even be waiting again by now.
        if (found !== undefined && decideCancel(found) !== 'cancel') throw notCancelable(found);
        const after = orNotFound(await findMessage(tenantId, tx, address));
        // Tests break this (mutant: cancel-answer): a cancel that was not made is never reported as made.
        const row = assertCanceled(after);
        if (found !== undefined && caller.kind === 'member') {
          await auditTo({ tx, trail: audit }, scopeOf(caller, request))('message.canceled', row.id);
        }
        return { row, isNew: found !== undefined };
      };
      const { row, isNew } = await inSlot(slots, tenantId, () => withTenant(sql, tenantId, cancel), gone());
      if (isNew) metrics.canceled(row.channel, 'id');
      return { body: toMessage(row), messageId: row.id };
    },
  });
}

/** @throws AppError `not_cancelable`, after which the transaction changes nothing. */
function assertCanceled(row: MessageRow): MessageRow {
  if (decideCancel(row.status) !== 'canceled') throw notCancelable(row.status);
  return row;
}

function notCancelable(status: MessageState): AppError {
  return new AppError('not_cancelable', { message: `Message can no longer be canceled: it is '${status}'` });
}
