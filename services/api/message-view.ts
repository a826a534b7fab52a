import { createHash } from 'node:crypto';
import { z } from 'zod';
import { CHANNELS } from '#core/domain/channel.ts';
import { FAILURE_CLASSES } from '#core/domain/failure.ts';
import { MESSAGE_STATES } from '#core/domain/message-state.ts';
import type { AttemptRow, EventRow, MessageKey, MessageRow } from '#core/store/messages.ts';
import { findProvider } from '#providers/registry.ts';

const time = z.iso.datetime();
const timeOrNull = time.nullable();

export const Message = z
  .object({
    id: z.uuid(),
    externalId: z.string().nullable(),
    channel: z.enum(CHANNELS),
    to: z.string().describe('As sent.'),
    from: z
      .string()
      .nullable()
      .describe("As sent; else the account's own sender, once the provider has accepted the message."),
    status: z.enum(MESSAGE_STATES),
    statusReason: z.string().nullable(),
    finality: z
      .enum(['final', 'accepted_only', 'pending'])
      .describe('`accepted_only`: sent by a provider that does not report what becomes of a message.'),
    failure: z
      .object({
        class: z.enum(FAILURE_CLASSES),
        code: z.string(),
        retryable: z.boolean(),
        providerCode: z.string().nullable(),
        providerMessage: z.string().nullable(),
      })
      .nullable(),
    category: z.string(),
    priority: z.enum(['high', 'normal', 'bulk']),
    test: z.boolean(),
    segments: z.int().nullable(),
    encoding: z.string().nullable(),
    providerId: z.uuid().nullable(),
    provider: z.string().nullable(),
    providerMessageId: z.string().nullable(),
    attemptCount: z.int(),
    nextAttemptAt: timeOrNull,
    duplicateRisk: z.boolean(),
    partial: z.boolean(),
    expiresAt: time,
    scheduledAt: timeOrNull,
    enqueuedAt: time,
    sentAt: timeOrNull,
    deliveredAt: timeOrNull,
    completedAt: timeOrNull,
    updatedAt: time,
    engagement: z.object({
      openedAt: timeOrNull,
      clickedAt: timeOrNull,
      readAt: timeOrNull,
      complainedAt: timeOrNull,
      unsubscribedAt: timeOrNull,
    }),
    route: z
      .array(z.object({ providerId: z.uuid(), reason: z.string() }))
      .describe('Accounts tried, in order.'),
    parentMessageId: z.uuid().nullable(),
    metadata: z.record(z.string(), z.unknown()).nullable(),
    tags: z.array(z.string()),
  })
  .meta({ id: 'Message' });

export const Attempt = z
  .object({
    id: z.uuid(),
    number: z.int(),
    providerId: z.uuid().nullable(),
    outcome: z.string(),
    code: z
      .string()
      .nullable()
      .describe(
        'Why the provider did not accept it: a stable reason such as `dns`, `connect_refused`, `tls`, `timeout`, `http_503`, `unknown_recipient`; or why it was not called.',
      ),
    failure: z
      .object({ class: z.enum(FAILURE_CLASSES), code: z.string() })
      .nullable()
      .describe('Of a call that ended without acceptance.'),
    startedAt: time,
    endedAt: timeOrNull,
    httpStatus: z.int().nullable(),
    providerCode: z.string().nullable(),
    providerMessage: z
      .string()
      .nullable()
      .describe("The provider's own text; what happened to the connection where no answer came."),
  })
  .meta({ id: 'Attempt' });

export const MessageEvent = z
  .object({
    id: z.uuid(),
    type: z.string(),
    at: time,
    source: z.string(),
    applied: z.boolean().describe('False for a receipt that came too late to change anything.'),
  })
  .meta({ id: 'MessageEvent' });

const PRIORITIES = ['high', 'normal', 'bulk'] as const;
/** Nothing reports engagement yet. */
const NO_ENGAGEMENT = {
  openedAt: null,
  clickedAt: null,
  readAt: null,
  complainedAt: null,
  unsubscribedAt: null,
} as const;

export function toMessage(row: MessageRow): z.output<typeof Message> {
  const { failure } = row;
  return {
    id: row.id,
    externalId: row.external_id,
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
    providerId: row.provider_id,
    provider: row.provider,
    providerMessageId: row.provider_message_id,
    attemptCount: row.attempt,
    nextAttemptAt: iso(row.next_attempt_at),
    duplicateRisk: row.duplicate_risk,
    partial: row.partial,
    expiresAt: row.expires_at.toISOString(),
    scheduledAt: null,
    enqueuedAt: row.enqueued_at.toISOString(),
    sentAt: iso(row.sent_at),
    deliveredAt: iso(row.delivered_at),
    completedAt: iso(row.completed_at),
    updatedAt: row.updated_at.toISOString(),
    engagement: NO_ENGAGEMENT,
    route: row.tried.map((providerId) => ({
      providerId,
      reason: providerId === row.pinned_provider_id ? 'pinned' : 'oldest_available',
    })),
    parentMessageId: row.parent_message_id,
    metadata: row.metadata,
    tags: row.tags ?? [],
  };
}

function finalityOf({ status, final, provider }: MessageRow): 'final' | 'accepted_only' | 'pending' {
  if (status === 'sent') {
    return provider !== null && findProvider(provider)?.receipts === false ? 'accepted_only' : 'pending';
  }
  return final ? 'final' : 'pending';
}

export function toAttempt(row: AttemptRow): z.output<typeof Attempt> {
  return {
    id: row.id,
    number: row.number,
    providerId: row.provider_id,
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

export function toEvent(row: Omit<EventRow, 'seq'>): z.output<typeof MessageEvent> {
  return { id: row.id, type: row.type, at: row.at.toISOString(), source: row.source, applied: row.applied };
}

/** The event of the acceptance: not stored, since the message's row says it all. Its id is the same at each reading. */
export function queuedEvent({ id, enqueued_at }: MessageKey): EventRow {
  return {
    seq: 0,
    id: uuidFrom(`message.queued ${id}`),
    type: 'message.queued',
    at: enqueued_at,
    source: 'api',
    applied: true,
  };
}

function uuidFrom(name: string): string {
  const bytes = createHash('sha256').update(name).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function iso(time: Date | null): string | null {
  return time === null ? null : time.toISOString();
}
