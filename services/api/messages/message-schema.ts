import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { CHOSEN_REASONS, ROUTE_VERDICTS } from '#core/domain/routing/explain-route.ts';
import { FAILURE_CLASSES } from '#core/domain/sending/failure.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { CATEGORIES, PRIORITIES } from '#core/domain/message/message-options.ts';
import { MESSAGE_STATES } from '#core/domain/message/message-state.ts';
import { SMS_ENCODINGS } from '#core/domain/message/segments.ts';
import { SKIPPED_REASONS } from '#core/domain/routing/skipped-account.ts';
import { STATUS_REASONS } from '#core/domain/message/status-reason.ts';
import { warningsField } from '../http/routes/request-warnings.ts';

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

export const Engagement = z
  .object({
    openedAt: timeOrNull,
    clickedAt: timeOrNull,
    readAt: timeOrNull,
    complainedAt: timeOrNull,
    unsubscribedAt: timeOrNull,
  })
  .meta({ id: 'Engagement', description: 'What the recipient did, if a provider reports it.' });

export const RouteStep = z
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
        'For a chosen account: `pinned` if the sender named it, `oldest_available` if no route is set, `in_route` or, after another account, `next_in_route`, and `sent_before` if it accepted the message and the others that were also to send it did not. For a failed account: the class of its failure, or `receipt_timeout` if it accepted the message and no receipt arrived in time. For a skipped account: `disabled` if it was disabled or deleted, `invalid` if its credential is refused, `breaker_open` and `rate_used_up` if it could not be called for longer than the route lets messages wait, `ambiguous_elsewhere` after a call without an answer, `not_in_route` if it was called before and has been removed from the route, `asked_to_wait` if it refused the message before and the wait that it requested was not over, and `expired` and `suppressed` if it was also to send the message and the message ended before.',
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
      .describe(
        'Why the message is in its state, if the state alone does not show it. `abuse_brake`: a brake holds the channel, or slows it and the message waits for its turn.',
      ),
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
