import { z } from 'zod';
import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { AppError, orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import type { AuditEntry, AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import { contentApart, COUNTED_BYTES_MIN } from '#core/domain/message/content.ts';
import { isPlaceRefused } from '#core/domain/storage/database-fault.ts';
import { decideRetry } from '#core/domain/sending/decide-retry.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { acceptMessages, type AcceptRow } from '#core/store/messages/acceptance.ts';
import { afterCommit } from '#core/store/query/after-commit.ts';
import { forgetContents } from '#core/store/messages/contents.ts';
import type { MessageAddress } from '#core/store/messages/messages.ts';
import { copyContent, findRetried, type RetriedRow } from '#core/store/messages/retries.ts';
import { assertMemberUntilCommit } from '../auth/assert-member.ts';
import { auditTo } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { MemberCaller } from '../auth/auth.ts';
import { createOnce, type Created, type CreateResult } from '../http/routes/idempotency.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { idempotencyKeyField } from '../http/routes/idempotency.ts';
import { IdParams, type RouteContext, type RouteModule } from '../http/routes/route.ts';
import { inSlot, type SharedSlots } from '../http/admission/shared-slots.ts';
import { SWEEP_AFTER_MS } from './accept-batcher.ts';
import { acceptWakes } from './accept-wakes.ts';
import { accountFor, readRouting, type Routed } from './account-for.ts';
import { addressOf } from './message-address.ts';
import type { MessagePlaces, NewPlace } from './message-places.ts';
import { refusalOf } from './refusal-of.ts';
import { rejectionReason } from './rejection-reason.ts';
import { retriedMessage, type Retried } from './retried-message.ts';
import { ACCEPTED_EXAMPLE, AcceptedMessage } from './accepted-message.ts';
import type { AcceptMetrics } from './send-message.ts';
import { uuidField } from '../http/input/fields.ts';

export type RetryMessageDeps = {
  readonly sql: Sql;
  readonly loadIds: LoadIds;
  readonly places: MessagePlaces;
  /** A share of the connections for changes. */
  readonly slots: SharedSlots;
  readonly addressKeys: AddressKeyRoot;
  readonly wakes: Pick<Nats, 'isConnected' | 'publishWakes'>;
  readonly audit: AuditTrail;
  /** Called with an audit entry that says the tenant's daily limit is near or reached. */
  readonly warned: (entry: AuditEntry) => void;
  readonly metrics: AcceptMetrics;
};

const RetryMessage = z
  .object({
    providerId: uuidField()
      .optional()
      .describe(
        'The only provider account that may send the message. Defaults to the account that the first message named, else to the route of the channel.',
      ),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'RetryMessage',
    description: 'How to send a message again.',
    examples: [{ providerId: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10' }],
  });

const PARENT_ID = '0d9c3f6e-1b2a-4c5d-8e7f-6a5b4c3d2e1f';
const RetriedMessage = AcceptedMessage.extend({
  parentMessageId: z.uuid().describe('The message that this one sends again.'),
}).meta({
  id: 'RetriedMessage',
  description: 'The new message, accepted and stored.',
  examples: [{ ...ACCEPTED_EXAMPLE, parentMessageId: PARENT_ID }],
});

type Context = RouteContext<
  { kind: 'bearer'; role: 'developer' },
  { id: string },
  object,
  { providerId?: string | undefined }
>;

/** `POST /v1/admin/messages/:id/retry`. Message, audit entry and the request's key are one commit. */
export function retryMessageRoute(deps: RetryMessageDeps): RouteModule {
  const { sql, loadIds, places, slots, metrics } = deps;

  async function retry(context: Context) {
    const { caller, params, gone } = context;
    const { id: tenantId } = caller.tenant;
    const address = await addressOf(loadIds, caller, params.id);
    const make = async () =>
      onceWithContent(context, address, await places.take(caller.tenant.limits.retentionDays));
    try {
      const { body, replayed } = await inSlot(slots, tenantId, make, gone());
      if (replayed) metrics.replayed();
      return { body, replayed, messageId: body.id };
    } catch (error) {
      if (isPlaceRefused(error)) places.drop();
      throw error;
    }
  }

  /**
   * A separately stored content is copied before the transaction, and only if the message can be sent: no lock is held
   * meanwhile.
   */
  async function onceWithContent(
    context: Context,
    address: MessageAddress,
    place: NewPlace,
  ): Promise<CreateResult<Retried>> {
    const inline = await once(context, address, place, { isCopied: false });
    if (inline !== 'content_apart') return inline;
    const { id: tenantId } = context.caller.tenant;
    const forget = () => void forgetContents(sql, tenantId, [place.seq]).catch(() => {});
    try {
      if (!(await copyContent(sql, tenantId, address, place))) throw withoutContent();
      const result = await once(context, address, place, { isCopied: true });
      if (result === 'content_apart') throw new Error('the content has been copied');
      if (result.replayed) forget();
      return result;
    } catch (error) {
      // After any other error the commit may still take place; a content without a message is deleted later.
      if (error instanceof AppError) forget();
      throw error;
    }
  }

  /** @returns `content_apart`, with nothing stored, if the message can be sent and its content must be copied before. */
  function once(
    { caller, body, idempotency, request }: Context,
    address: MessageAddress,
    place: NewPlace,
    { isCopied }: { readonly isCopied: boolean },
  ): Promise<CreateResult<Retried> | 'content_apart'> {
    // The driver commits unless the callback throws.
    const rollback = new Error('rolled back on purpose');
    const made = createOnce<Retried>(sql, {
      tenantId: caller.tenant.id,
      claim: idempotency,
      async create(tx): Promise<Created<Retried>> {
        await assertMemberUntilCommit(tx, caller, request);
        const parent = orNotFound(await findRetried(caller.tenant.id, tx, address));
        assertRetryable(parent);
        const apart = contentApart(parent.content);
        const account = await accountOf(tx, caller, parent, place, body.providerId);
        if (apart !== undefined && !isCopied) throw rollback;
        const given = {
          tenant: caller.tenant,
          place,
          ...account,
          now: Date.now(),
          addressKeys: deps.addressKeys,
        };
        const row = withBytes(retriedMessage(parent, given, request), apart === undefined);
        await accept(tx, caller, row);
        const changes = auditChanges({}, { messageId: row.id, providerId: body.providerId });
        const audit = auditTo({ tx, trail: deps.audit }, scopeOf(caller, request));
        await audit('message.retried', parent.id, { messageId: row.id }, { changes });
        afterCommit(tx, () => {
          metrics.accepted(parent.channel, caller.tenant.id);
          // Not awaited: the sweep finds messages whose wake-up is lost.
          void deps.wakes.publishWakes(acceptWakes([row]));
        });
        return { status: 202, body: row.response };
      },
    });
    return made.catch((error: unknown) => {
      if (error !== rollback) throw error;
      return 'content_apart';
    });
  }

  /** @throws AppError when a limit or the tenant's suspension forbids it: nothing is stored then. */
  async function accept(tx: TransactionSql, { tenant }: MemberCaller, row: AcceptRow): Promise<void> {
    const sweepAfterMs = deps.wakes.isConnected() ? SWEEP_AFTER_MS : 0;
    const [verdict] = await acceptMessages(tx, [row], sweepAfterMs, {
      warned: (entry) => afterCommit(tx, () => deps.warned(entry)),
    });
    switch (verdict?.verdict) {
      case 'accepted':
        return;
      case 'suspended':
      case 'daily_limit_reached':
      case 'backlog_full': {
        const counted = { limits: tenant.limits, isTest: row.test, rate: null };
        const refusal = refusalOf(verdict.verdict, counted, { retryAfter: verdict.retryAfter ?? 1 });
        const reason = rejectionReason(refusal.code);
        if (reason !== undefined) metrics.rejected(reason, tenant.id);
        throw refusal;
      }
      case 'replayed':
      case 'mismatch':
      case 'rate_limited':
      case undefined:
        throw new Error(`a message that is sent again cannot be ${verdict?.verdict ?? 'unsettled'}`);
    }
  }

  return defineRoute({
    method: 'POST',
    path: '/v1/admin/messages/:id/retry',
    tag: 'Messages',
    operation: 'retryMessage',
    summary: 'Send a message again, as a new one',
    description:
      'For a message that is `failed`, `undelivered`, `unknown` or `expired`: creates a new message with the same content and recipient, whose `parentMessageId` is the id of the first one. Any other state, and a message whose content is deleted, returns 409 `invalid_state`. The new message counts against the daily limit and `backlogMax` like any sent message, and lives for 24 hours (`otp` 10 minutes). An `unknown` message may have arrived: its recipient may get it twice. Each call creates a message; a call repeated with the same idempotency key does not create another one.',
    auth: { kind: 'bearer', role: 'developer' },
    params: IdParams,
    body: RetryMessage,
    idempotent: true,
    status: 202,
    response: RetriedMessage,
    errors: ['invalid_state', 'provider_not_configured', 'daily_limit_reached', 'backlog_full'],
    handler: retry,
  });
}

/** @throws AppError `invalid_state` */
function assertRetryable({ status, content }: RetriedRow): void {
  switch (decideRetry(status, content !== null)) {
    case 'state':
      throw new AppError('invalid_state', { message: `Message cannot be sent again: it is '${status}'` });
    case 'content':
      throw withoutContent();
    case 'retry':
  }
}

function withoutContent(): AppError {
  return new AppError('invalid_state', {
    message: 'Message cannot be sent again: its content has been deleted',
  });
}

/** @throws AppError when no account is left for it. */
async function accountOf(
  tx: TransactionSql,
  { tenant }: { tenant: { readonly id: TenantId } },
  { channel, test, pinned_account_id }: RetriedRow,
  { id }: NewPlace,
  wanted: string | undefined,
): Promise<{ routed: Routed; pinned: string | null }> {
  const routing = await readRouting(tenant.id, tx);
  const pinned = wanted ?? pinned_account_id;
  const key = { mode: test ? 'test' : 'live' } as const;
  const message = { channel, providerId: pinned ?? undefined };
  try {
    const { routed } = await accountFor({ ...routing, key }, message, id, () => Promise.resolve(routing));
    return { routed, pinned };
  } catch (error) {
    if (wanted !== undefined || pinned === null) throw error;
    const text = 'Must be given: the provider account that the message named is not there any more';
    throw validationFailed({ field: 'providerId', rule: 'provider', message: text });
  }
}

/** Sets the number of bytes that a worker loads with the message, unless that is small. */
function withBytes<Row extends AcceptRow>(row: Row, isInline: boolean): Row {
  const bytes = isInline ? Buffer.byteLength(JSON.stringify(row.content)) : 0;
  return bytes < COUNTED_BYTES_MIN ? row : { ...row, content_bytes: bytes };
}
