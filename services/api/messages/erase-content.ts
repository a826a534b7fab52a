import { AppError, orNotFound } from '#core/domain/fault/app-error.ts';
import type { AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { eraseContent } from '#core/store/messages/erasure.ts';
import { findMessageKey } from '#core/store/messages/messages.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { assertMemberUntilCommit } from '../auth/assert-member.ts';
import { auditTo } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { inSlot, type SharedSlots } from '../http/admission/shared-slots.ts';
import { addressOf } from './message-address.ts';

export type EraseContentDeps = {
  readonly sql: Sql;
  readonly loadIds: LoadIds;
  readonly slots: SharedSlots;
  readonly audit: AuditTrail;
};

/** `DELETE /v1/admin/messages/:id/content`: does by hand and later what `contentRetention: discard` does automatically. */
export function eraseContentRoute({ sql, loadIds, slots, audit }: EraseContentDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/messages/:id/content',
    tag: 'Messages',
    operation: 'eraseMessageContent',
    summary: "Delete a message's content permanently",
    description:
      'Deletes text, subject, attachments and all other content of the message. Its record stays, with recipient, state, metadata and tags. Messages that sent it again have their own content: list them by `parentMessageId` and delete that too. A message that may still be sent returns 409 `invalid_state`: cancel it first. If no content is left, the answer is 204 as well.',
    auth: { kind: 'bearer', role: 'admin' },
    params: IdParams,
    errors: ['invalid_state'],
    async handler({ caller, params, request, gone }) {
      const { id: tenantId } = caller.tenant;
      const address = await addressOf(loadIds, caller, params.id);
      const erase = async (tx: TransactionSql): Promise<void> => {
        await assertMemberUntilCommit(tx, caller, request);
        const key = orNotFound(await findMessageKey(tenantId, tx, address));
        const erasure = await eraseContent(tx, key);
        if (erasure === 'live') {
          throw new AppError('invalid_state', {
            message: 'Message may still be sent, and needs its content: cancel it first',
          });
        }
        if (erasure === 'erased') {
          await auditTo({ tx, trail: audit }, scopeOf(caller, request))('message.content_erased', key.id);
        }
      };
      await inSlot(slots, tenantId, () => withTenant(sql, tenantId, erase), gone());
      return { body: undefined, messageId: params.id };
    },
  });
}
