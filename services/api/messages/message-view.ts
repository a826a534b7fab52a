import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import {
  CHOSEN_REASONS,
  explainRoute,
  ROUTE_VERDICTS,
  type RouteFacts,
} from '#core/domain/routing/explain-route.ts';
import { FAILURE_CLASSES } from '#core/domain/sending/failure.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { EVENT_SOURCES, MESSAGE_EVENT_TYPES } from '#core/domain/message/message-event.ts';
import { CATEGORIES, PRIORITIES } from '#core/domain/message/message-options.ts';
import { isWaiting, MESSAGE_STATES } from '#core/domain/message/message-state.ts';
import { ATTEMPT_OUTCOMES } from '#core/domain/sending/outcome.ts';
import { orderOf } from '#core/domain/routing/route.ts';
import { SMS_ENCODINGS } from '#core/domain/message/segments.ts';
import { SKIPPED_REASONS } from '#core/domain/routing/skipped-account.ts';
import { STATUS_REASONS } from '#core/domain/message/status-reason.ts';
import type { AttemptRow, MessageHistoryRow } from '#core/store/messages/message-history.ts';
import type { MessageKey, MessageRow } from '#core/store/messages/messages.ts';
import { iso } from '../http/iso.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { PROVIDER_STATUS_MAX } from '#providers/receipt.ts';
import { findProvider, reportsDeliveries } from '#providers/registry.ts';

const time = z.iso.datetime();
const timeOrNull = time.nullable();

const NO_ENGAGEMENT = {
  openedAt: null,
  clickedAt: null,
  readAt: null,
  complainedAt: null,
  unsubscribedAt: null,
} as const;

const MessageFailure = z
  .object({
    class: z.enum(FAILURE_CLASSES),
    code: z.string().describe('For example `unknown_recipient`, `http_503` or `timeout`.'),
    retryable: z.boolean(),
    providerCode: z.string().nullable().describe("The provider's own code."),
    providerMessage: z.string().nullable().describe("The provider's own message text."),
  })
  .meta({ id: 'MessageFailure', description: 'Why a message was not delivered, or is not delivered yet.' });

const Engagement = z
  .object({
    openedAt: timeOrNull,
    clickedAt: timeOrNull,
    readAt: timeOrNull,
    complainedAt: timeOrNull,
    unsubscribedAt: timeOrNull,
  })
  .meta({ id: 'Engagement', description: 'What the recipient did, if a provider reports it.' });

const RouteStep = z
  .object({
    providerId: z.uuid(),
    label: z.string().nullable().describe("The tenant's current name for the account."),
    verdict: z
      .enum(ROUTE_VERDICTS)
      .describe(
        '`chosen`: it sent the message, or was chosen to send it. `failed`: it was called and did not accept it. `skipped`: it could not be called.',
      ),
    reason: z
      .enum([...CHOSEN_REASONS, ...SKIPPED_REASONS, ...FAILURE_CLASSES, 'receipt_timeout'])
      .describe(
        'For a chosen account: `pinned` if the sender named it, `oldest_available` if no route is set, `in_route` or, after another account, `next_in_route`, and `sent_before` if it accepted the message and the others that were also to send it did not. For a failed account: the class of its failure, or `receipt_timeout` if it accepted the message and no receipt arrived in time. For a skipped account: `disabled` if it was disabled or deleted, `invalid` if its credential is refused, `breaker_open` and `rate_used_up` if it could not be called for longer than the route lets messages wait, `ambiguous_elsewhere` after a call without an answer, `not_in_route` if it was called before and has been removed from the route, and `expired` and `suppressed` if it was also to send the message and the message ended before.',
      ),
    attempt: z
      .int()
      .min(1)
      .max(INT32_MAX)
      .optional()
      .describe('Number of the last call through it; absent if there was none.'),
    at: time.describe('Time of this decision.'),
  })
  .meta({
    id: 'RouteStep',
    description: 'A provider account that was considered for a message, and the result.',
  });

const MESSAGE_ID = 'b7e23ec2-9f0a-4b1c-8d2e-3f4a5b6c7d8e';
const ACCOUNT_ID = '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10';

export const Message = z
  .object({
    id: z.uuid(),
    externalId: z.string().nullable().describe("Caller's own reference."),
    batchId: z
      .uuid()
      .nullable()
      .describe('Id of the batch that it was sent with; null for a message sent by itself.'),
    channel: z.enum(CHANNELS),
    to: z.string().describe('Recipient, as sent.'),
    from: z
      .string()
      .nullable()
      .describe(
        "Sender, as sent; else the account's own sender, once the provider has accepted the message.",
      ),
    status: z.enum(MESSAGE_STATES),
    statusReason: z
      .enum(STATUS_REASONS)
      .nullable()
      .describe('Why the message is in its state, if the state alone does not show it.'),
    finality: z
      .enum(['final', 'accepted_only', 'pending'])
      .describe('`accepted_only`: sent by a provider that does not report deliveries.'),
    failure: MessageFailure.nullable(),
    category: z.enum(CATEGORIES),
    priority: z.enum(PRIORITIES),
    test: z.boolean().describe('Sent with a test key: no provider is called.'),
    segments: z.int().min(1).max(255).nullable().describe('Only for `sms`.'),
    encoding: z.enum(SMS_ENCODINGS).nullable().describe('Only for `sms`.'),
    providerId: z
      .uuid()
      .nullable()
      .describe(
        'The provider account of the last attempt; if the message has since moved to another account, that account.',
      ),
    provider: z.string().nullable().describe('Id of the provider in the catalog.'),
    providerMessageId: z.string().nullable().describe("The provider's own id of the message."),
    attemptCount: z.int().min(0).max(INT32_MAX),
    nextAttemptAt: timeOrNull,
    duplicateRisk: z
      .boolean()
      .describe(
        'The message may have been sent twice: after a call without an answer, or because no receipt arrived in time.',
      ),
    partial: z.boolean().describe('Undelivered, but some of its segments may have arrived.'),
    lateBounce: z.boolean().describe('A bounce was reported after the delivery.'),
    expiresAt: time,
    scheduledAt: timeOrNull.describe('The `sendAt` of a message that was scheduled, as last set.'),
    enqueuedAt: time,
    sentAt: timeOrNull,
    deliveredAt: timeOrNull,
    completedAt: timeOrNull,
    updatedAt: time,
    engagement: Engagement,
    route: z.array(RouteStep).describe('Every provider account that was considered, in order.'),
    routeVersion: z
      .int()
      .min(0)
      .max(INT32_MAX)
      .nullable()
      .describe(
        'Version of the route that decided last. 0: no route was set. Null if the sender named the account, and for a test message.',
      ),
    parentMessageId: z
      .uuid()
      .nullable()
      .describe('The message that this one sends again, after `POST /v1/admin/messages/{id}/retry`.'),
    metadata: z.record(z.string(), z.unknown()).nullable(),
    tags: z.array(z.string()),
    ...warningsField,
  })
  .meta({
    id: 'Message',
    description: 'The record of a message, without its content.',
    examples: [
      {
        id: MESSAGE_ID,
        externalId: 'order-1042',
        batchId: null,
        channel: 'sms',
        to: '+15550000001',
        from: null,
        status: 'delivered',
        statusReason: null,
        finality: 'final',
        failure: null,
        category: 'transactional',
        priority: 'normal',
        test: false,
        segments: 1,
        encoding: 'GSM-7',
        providerId: ACCOUNT_ID,
        provider: 'twilio',
        providerMessageId: 'SM0123456789abcdef0123456789abcdef',
        attemptCount: 1,
        nextAttemptAt: null,
        duplicateRisk: false,
        partial: false,
        lateBounce: false,
        expiresAt: '2026-01-16T09:30:00.000Z',
        scheduledAt: null,
        enqueuedAt: '2026-01-15T09:30:00.000Z',
        sentAt: '2026-01-15T09:30:00.120Z',
        deliveredAt: '2026-01-15T09:30:02.480Z',
        completedAt: '2026-01-15T09:30:02.480Z',
        updatedAt: '2026-01-15T09:30:02.480Z',
        engagement: NO_ENGAGEMENT,
        route: [
          {
            providerId: ACCOUNT_ID,
            label: 'Twilio, main account',
            verdict: 'chosen',
            reason: 'in_route',
            attempt: 1,
            at: '2026-01-15T09:30:00.000Z',
          },
        ],
        routeVersion: 3,
        parentMessageId: null,
        metadata: { orderId: 1042 },
        tags: ['order'],
      },
    ],
  });

export const Attempt = z
  .object({
    id: z.uuid(),
    number: z.int().min(1).max(INT32_MAX),
    providerId: z.uuid().nullable(),
    outcome: z
      .enum(ATTEMPT_OUTCOMES)
      .describe('`started`: under way. `not_started`: postponed, without a call.'),
    code: z
      .string()
      .nullable()
      .describe(
        'Why the provider did not accept it: a stable reason such as `dns`, `connect_refused`, `tls`, `timeout`, `http_503`, `unknown_recipient`; or why it was not called.',
      ),
    failure: z
      .object({ class: z.enum(FAILURE_CLASSES), code: z.string() })
      .nullable()
      .describe('Failure of a call that ended without acceptance.'),
    startedAt: time,
    endedAt: timeOrNull,
    httpStatus: z.int().min(100).max(999).nullable(),
    providerCode: z.string().nullable(),
    providerMessage: z
      .string()
      .nullable()
      .describe("The provider's own text, or what happened to the connection if there was no answer."),
  })
  .meta({
    id: 'Attempt',
    description: 'One call to a provider.',
    examples: [
      {
        id: 'd2f1a0b9-8c7d-4e6f-a5b4-c3d2e1f0a9b8',
        number: 1,
        providerId: ACCOUNT_ID,
        outcome: 'accepted',
        code: null,
        failure: null,
        startedAt: '2026-01-15T09:30:00.048Z',
        endedAt: '2026-01-15T09:30:00.120Z',
        httpStatus: 201,
        providerCode: null,
        providerMessage: null,
      },
    ],
  });

export const Event = z
  .object({
    id: z.uuid(),
    type: z.enum(MESSAGE_EVENT_TYPES),
    at: time,
    source: z.enum(EVENT_SOURCES).describe('Source of the event.'),
    applied: z.boolean().describe('False for a receipt that arrived too late to change anything.'),
    verified: z
      .boolean()
      .nullable()
      .describe(
        "For a provider's report: true if it certainly comes from the provider: its signature was verified, or the provider was asked about the message; false if only the secret `receiptUrl` authenticates it. Null for other events.",
      ),
    providerStatus: z
      .string()
      .max(PROVIDER_STATUS_MAX)
      .nullable()
      .describe(
        "For a provider's report: the provider's own status, or `found` if it knows the message and has no status for it. Null for other events.",
      ),
  })
  .meta({
    id: 'Event',
    description: 'An event of a message.',
    examples: [
      {
        id: 'e3a2b1c0-9d8e-4f7a-b6c5-d4e3f2a1b0c9',
        type: 'message.delivered',
        at: '2026-01-15T09:30:02.480Z',
        source: 'receipt',
        applied: true,
        verified: true,
        providerStatus: 'delivered',
      },
    ],
  });

/** The API calls an account's id `providerId`, because accounts are created at `/v1/admin/providers`. */
export function toMessage(row: MessageRow): z.output<typeof Message> {
  const { failure } = row;
  return {
    id: row.id,
    externalId: row.external_id,
    batchId: row.batch_id,
    channel: row.channel,
    to: row.recipient,
    from: row.sender,
    status: row.status,
    statusReason: row.reason,
    finality: finalityOf(row),
    failure: failure && {
      class: failure.class,
      code: failure.code,
      retryable: failure.retryable ?? false,
      providerCode: failure.providerCode ?? null,
      providerMessage: failure.providerMessage ?? null,
    },
    category: row.category,
    priority: PRIORITIES[row.priority] ?? 'normal',
    test: row.test,
    segments: row.segments,
    encoding: row.encoding,
    providerId: row.account_id,
    provider: row.provider,
    providerMessageId: row.provider_message_id,
    attemptCount: row.attempt,
    nextAttemptAt: iso(byOwnClock(row, row.next_attempt_at)),
    duplicateRisk: row.duplicate_risk,
    partial: row.partial,
    lateBounce: row.late_bounce,
    expiresAt: byOwnClock(row, row.expires_at).toISOString(),
    scheduledAt: iso(row.scheduled_at),
    enqueuedAt: row.enqueued_at.toISOString(),
    sentAt: iso(row.sent_at),
    deliveredAt: iso(row.delivered_at),
    completedAt: iso(row.completed_at),
    updatedAt: row.updated_at.toISOString(),
    engagement: engagementOf(row),
    route: routeOf(row),
    routeVersion: routeVersionOf(row),
    parentMessageId: row.parent_id,
    metadata: row.metadata,
    tags: row.tags ?? [],
  };
}

function routeOf(row: MessageRow): z.output<typeof RouteStep>[] {
  const considered = explainRoute({
    enqueuedAt: row.enqueued_at.toISOString(),
    isPinned: row.pinned_account_id !== null,
    routeVersion: row.route_version,
    skipped: row.route_skipped ?? [],
    left: (row.left_accounts ?? []).map((one) => ({ ...one, at: new Date(one.at).toISOString() })),
    ambiguous: ambiguousOf(row),
    accountId: row.account_id,
    attempts: row.attempt,
    sentAttempt: row.sent_attempt,
    endedBy: row.status === 'failed' ? (row.failure?.class ?? null) : null,
    endedAt: iso(row.completed_at),
  });
  return considered.map(({ accountId, ...one }) => ({
    providerId: accountId,
    label: row.labels[accountId] ?? null,
    ...one,
  }));
}

/** Returns the alternative accounts of the route at the time when a call got no answer. */
function ambiguousOf({ id, channel, ambiguous_call: call }: MessageRow): RouteFacts['ambiguous'] {
  if (call === null) return null;
  const { at, strategy, version, steps } = call;
  const route = {
    channel,
    strategy: strategy ?? 'priority',
    version: version ?? 0,
    steps: steps ?? [],
    failoverOn: [],
  };
  return { at: new Date(at).toISOString(), accounts: [...orderOf(route, id)] };
}

function routeVersionOf(row: MessageRow): number | null {
  if (row.test || row.pinned_account_id !== null) return null;
  const later = row.left_accounts?.findLast(({ version }) => version !== null)?.version;
  return later ?? row.route_version ?? 0;
}

/**
 * Converts an instant to the message's clock: times that a test message still waits for are on the tenant's test clock,
 * past times on the real clock.
 */
function byOwnClock<T extends Date | null>({ ahead_ms: aheadMs, status }: MessageRow, instant: T): Date | T {
  if (instant === null || aheadMs === null || aheadMs === 0) return instant;
  return isWaiting(status) ? new Date(instant.getTime() + aheadMs) : instant;
}

function engagementOf({ engagement }: MessageRow): z.output<typeof Engagement> {
  const at = (what: keyof NonNullable<MessageRow['engagement']>): string | null => {
    const time = engagement?.[what];
    return time === undefined ? null : new Date(time).toISOString();
  };
  return {
    openedAt: at('opened'),
    clickedAt: at('clicked'),
    readAt: at('read'),
    complainedAt: at('complained'),
    unsubscribedAt: at('unsubscribed'),
  };
}

function finalityOf({ status, final, provider }: MessageRow): 'final' | 'accepted_only' | 'pending' {
  const known = provider === null ? undefined : findProvider(provider);
  // No receipt is pending once the state is final, and some providers never send any.
  const isSilent = known !== undefined && !reportsDeliveries(known);
  if (status === 'sent') return final || isSilent ? 'accepted_only' : 'pending';
  return final || (status === 'unknown' && isSilent) ? 'final' : 'pending';
}

export function toAttempt(row: AttemptRow): z.output<typeof Attempt> {
  return {
    id: row.id,
    number: row.number,
    providerId: row.account_id,
    outcome: row.outcome,
    code: row.reason,
    failure: row.failure && { class: row.failure.class, code: row.failure.code },
    startedAt: row.started_at.toISOString(),
    endedAt: iso(row.ended_at),
    httpStatus: row.http_status,
    providerCode: row.failure?.providerCode ?? null,
    providerMessage: row.failure?.providerMessage ?? null,
  };
}

export function toEvent(row: MessageHistoryRow & { readonly id: string }): z.output<typeof Event> {
  return {
    id: row.id,
    type: row.type,
    at: row.at.toISOString(),
    source: row.source,
    applied: row.applied,
    verified: row.verified,
    providerStatus: row.provider_status,
  };
}

/** Returns the event of the acceptance: it is not stored, because the message's row contains it. */
export function acceptedEvent({ enqueued_at, scheduled_at }: MessageKey): MessageHistoryRow {
  return {
    event_seq: 0,
    type: scheduled_at === null ? 'message.queued' : 'message.scheduled',
    at: enqueued_at,
    source: 'api',
    applied: true,
    verified: null,
    provider_status: null,
  };
}
