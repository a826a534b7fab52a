import { z } from 'zod';
import { BRAKE_LEVELS, BRAKE_REASONS } from '../tenant/brake.ts';
import { CHANNELS } from '../message/channel.ts';
import { ENGAGEMENTS } from '../receipts/engagement.ts';
import { FAILURE_CLASSES } from '../sending/failure.ts';
import { WEBHOOK_EVENTS, type FeedEventType, type WebhookEventType } from './feed-event.ts';
import { INT32_MAX } from '../int32-max.ts';
import { CATEGORIES } from '../message/message-options.ts';
import { LEFT_REASONS } from '../routing/skipped-account.ts';
import { SUPPRESSION_REASONS, SUPPRESSION_SCOPES, SUPPRESSION_SOURCES } from '../recipient/suppression.ts';

/** Maximum number in a feed; a million events per second would take thirty years to reach it. */
export const SEQ_MAX = 1_000_000_000_000_000;

const seq = z
  .int()
  .min(1)
  .max(SEQ_MAX)
  .describe(
    'Number of the event: 1, 2, and so on, in the order in which events happened. In calls to a webhook endpoint, and in answers to requests with `endpointId`, it counts the events of that endpoint; else those of the tenant.',
  );

const messageData = z.object({
  seq,
  sequence: z
    .int()
    .min(1)
    .max(INT32_MAX)
    .describe("Number of the event among this message's events: 1, 2, and so on."),
  test: z.boolean().describe('Whether the message was sent with a test key.'),
  messageId: z.uuid(),
  externalId: z.string().nullable().describe("Caller's own reference."),
  channel: z.enum(CHANNELS),
  to: z.string().describe('Recipient, as sent.'),
  category: z.enum(CATEGORIES),
  metadata: z.record(z.string(), z.unknown()).nullable().describe("Caller's own data."),
  tags: z.array(z.string()),
  attempt: z
    .int()
    .min(1)
    .max(INT32_MAX)
    .nullable()
    .describe('Number of the last call to a provider; null before the first call.'),
  providerId: z.uuid().nullable().describe('The provider account of that call.'),
  provider: z.string().nullable().describe('Id of the provider in the catalog.'),
});

const failure = z
  .object({
    class: z.enum(FAILURE_CLASSES),
    code: z.string().describe('For example `unknown_recipient`, `http_503` or `timeout`.'),
    providerCode: z.string().nullable().describe("The provider's own code."),
    providerMessage: z.string().nullable().describe("The provider's own message text."),
  })
  .meta({ id: 'EventFailure', description: 'Why a message was not delivered, or is not delivered yet.' })
  .nullable();
const providerStatus = z
  .string()
  .nullable()
  .describe("The provider's own status; null if the event does not follow from a report.");
const reported = messageData.extend({ providerStatus });
const failed = messageData.extend({ failure });

const providerData = z.object({
  seq,
  providerId: z.uuid().describe('The provider account.'),
  provider: z.string().describe('Id of the provider in the catalog.'),
  channel: z.enum(CHANNELS),
  label: z.string(),
  status: z.string().describe('`unverified`, `active`, `invalid` or `disabled`.'),
  reason: z.string().nullable().describe('Why the credential was refused.'),
});
const endpointData = z.object({
  seq,
  endpointId: z.uuid().describe('The webhook endpoint.'),
  url: z.string(),
  status: z.string().describe('`failing` or `disabled`.'),
  reason: z
    .string()
    .nullable()
    .describe('Why it is disabled: `gone` if it answered 410, or `failing` if it failed for five days.'),
});
const suppressionData = z.object({
  seq,
  suppressionId: z.uuid().describe('The entry.'),
  channel: z.enum(CHANNELS),
  address: z.string().nullable().describe('In normalized form; null if only its hash is kept.'),
  hashed: z.boolean(),
  reason: z.enum(SUPPRESSION_REASONS),
  scope: z.enum(SUPPRESSION_SCOPES),
  source: z.enum(SUPPRESSION_SOURCES),
  messageId: z.uuid().nullable().describe('The message that caused it.'),
  expiresAt: z.iso.datetime().nullable(),
});
const importData = z.object({
  seq,
  entries: z
    .int()
    .min(1)
    .max(INT32_MAX)
    .describe('Number of entries that were added or replaced another one.'),
});
const tenantData = z.object({
  seq,
  reason: z.string().describe('Reason of the suspension: `manual`, `billing` or `abuse`.'),
});
const brakeData = z.object({
  seq,
  channel: z.enum(CHANNELS),
  level: z
    .enum(BRAKE_LEVELS)
    .describe(
      '`slowed`: the channel sends a tenth of what it sent before; `held`: its messages wait. In `tenant.brake_lifted`: the level of the lifted brake.',
    ),
  reason: z.enum(BRAKE_REASONS),
  rate: z
    .number()
    .min(0)
    .max(1)
    .describe('Share of the final messages over which it was measured, 1,000 or more of the channel.'),
  bound: z
    .number()
    .min(0)
    .max(1)
    .describe("The plan's limit for the rate: `hardBounceRateMax` or `complaintRateMax`."),
});

const limitData = z.object({
  seq,
  limit: z.literal('messagesPerDay').describe('Name of the limit.'),
  value: z.int().min(0).max(INT32_MAX).describe('Value of the limit.'),
  used: z.int().min(0).max(INT32_MAX).describe('Usage at the time of the event.'),
});

const MESSAGE_EXAMPLE: z.output<typeof messageData> = {
  seq: 1042,
  sequence: 2,
  test: false,
  messageId: 'b7e23ec2-9f0a-4b1c-8d2e-3f4a5b6c7d8e',
  externalId: 'order-1042',
  channel: 'sms',
  to: '+15550000001',
  category: 'transactional',
  metadata: { orderId: 1042 },
  tags: ['order'],
  attempt: 1,
  providerId: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
  provider: 'twilio',
};
const FAILURE_EXAMPLE: z.output<typeof failure> & object = {
  class: 'provider_unavailable',
  code: 'http_503',
  providerCode: null,
  providerMessage: 'Service unavailable',
};
const BRAKE_EXAMPLE: z.output<typeof brakeData> = {
  seq: 1046,
  channel: 'email',
  level: 'slowed',
  reason: 'hard_bounce_rate',
  rate: 0.124,
  bound: 0.1,
};
const PROVIDER_EXAMPLE: z.output<typeof providerData> = {
  seq: 1043,
  providerId: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
  provider: 'twilio',
  channel: 'sms',
  label: 'Twilio, main account',
  status: 'active',
  reason: null,
};

const ENDPOINT_EXAMPLE: z.output<typeof endpointData> = {
  seq: 1044,
  endpointId: '5b8d0f3e-1c2a-4e6f-8a90-b1c2d3e4f506',
  url: 'https://example.com/hooks',
  status: 'failing',
  reason: null,
};

const SUPPRESSION_EXAMPLE: z.output<typeof suppressionData> = {
  seq: 1045,
  suppressionId: '7c1e5a90-2b3d-4f6a-9e8c-0d1f2a3b4c5d',
  channel: 'email',
  address: 'ann@example.com',
  hashed: false,
  reason: 'complaint',
  scope: 'marketing',
  source: 'receipt',
  messageId: MESSAGE_EXAMPLE.messageId,
  expiresAt: null,
};

const pingData = z.object({ endpointId: z.uuid().describe('The webhook endpoint.') });

/** The envelope schema of each event type: `{id, type, timestamp, data}`. */
export const EVENT_SCHEMAS = {
  'message.scheduled': envelope('message.scheduled', messageData, {
    ...MESSAGE_EXAMPLE,
    sequence: 1,
    attempt: null,
    providerId: null,
    provider: null,
  }),
  'message.queued': envelope('message.queued', messageData, {
    ...MESSAGE_EXAMPLE,
    sequence: 1,
    attempt: null,
    providerId: null,
    provider: null,
  }),
  'message.sent': envelope('message.sent', reported, { ...MESSAGE_EXAMPLE, providerStatus: null }),
  'message.deferred': envelope('message.deferred', failed, { ...MESSAGE_EXAMPLE, failure: FAILURE_EXAMPLE }),
  'message.failed_over': envelope(
    'message.failed_over',
    failed.extend({
      why: z
        .enum(['refused', ...LEFT_REASONS, 'receipt_timeout'])
        .describe(
          'Why the message moved: `refused`, see `failure`, or the account could not be called: its breaker was open or its rate used up for too long, its credential was refused (`invalid`), or it was disabled. Or the account had accepted the message and no receipt arrived in time (`receipt_timeout`): the message may arrive twice.',
        ),
      fromProviderId: z.uuid().nullable().describe('The previous provider account.'),
      toProviderId: z.uuid().describe('The provider account that is called next.'),
      routeVersion: z
        .int()
        .min(0)
        .max(INT32_MAX)
        .describe('Version of the route that chose the next account.'),
    }),
    {
      ...MESSAGE_EXAMPLE,
      failure: FAILURE_EXAMPLE,
      why: 'refused',
      fromProviderId: MESSAGE_EXAMPLE.providerId,
      toProviderId: '8c1d7e5b-6a0f-4b6a-8f0c-1d2e3f4a5b6c',
      routeVersion: 3,
    },
  ),
  'message.delivered': envelope('message.delivered', reported, {
    ...MESSAGE_EXAMPLE,
    sequence: 3,
    providerStatus: 'delivered',
  }),
  'message.undelivered': envelope('message.undelivered', reported.extend({ failure }), {
    ...MESSAGE_EXAMPLE,
    sequence: 3,
    providerStatus: 'undelivered',
    failure: {
      ...FAILURE_EXAMPLE,
      class: 'invalid_recipient',
      code: 'unknown_recipient',
      providerCode: '30003',
    },
  }),
  'message.failed': envelope('message.failed', failed, { ...MESSAGE_EXAMPLE, failure: FAILURE_EXAMPLE }),
  'message.expired': envelope('message.expired', failed, {
    ...MESSAGE_EXAMPLE,
    failure: { class: 'expired', code: 'expired', providerCode: null, providerMessage: null },
  }),
  'message.canceled': envelope('message.canceled', failed, { ...MESSAGE_EXAMPLE, failure: null }),
  'message.suppressed': envelope(
    'message.suppressed',
    messageData.extend({ reason: z.enum(SUPPRESSION_REASONS).describe('Reason of the suppression entry.') }),
    { ...MESSAGE_EXAMPLE, attempt: null, providerId: null, provider: null, reason: 'unsubscribe' },
  ),
  'message.unknown': envelope(
    'message.unknown',
    failed.extend({
      reason: z.string().nullable().describe('`ambiguous_attempt` or `receipt_timeout`.'),
    }),
    { ...MESSAGE_EXAMPLE, failure: null, reason: 'receipt_timeout' },
  ),
  'message.engagement': envelope(
    'message.engagement',
    reported.extend({ engagement: z.enum(ENGAGEMENTS).describe('What the recipient did.') }),
    { ...MESSAGE_EXAMPLE, sequence: 4, providerStatus: 'read', engagement: 'read' },
  ),
  'provider.active': envelope('provider.active', providerData, PROVIDER_EXAMPLE),
  'provider.invalid': envelope('provider.invalid', providerData, {
    ...PROVIDER_EXAMPLE,
    status: 'invalid',
    reason: 'http_401',
  }),
  'provider.degraded': envelope('provider.degraded', providerData, PROVIDER_EXAMPLE),
  'provider.recovered': envelope('provider.recovered', providerData, PROVIDER_EXAMPLE),
  'endpoint.failing': envelope('endpoint.failing', endpointData, ENDPOINT_EXAMPLE),
  'endpoint.disabled': envelope('endpoint.disabled', endpointData, {
    ...ENDPOINT_EXAMPLE,
    status: 'disabled',
    reason: 'gone',
  }),
  'suppression.added': envelope('suppression.added', suppressionData, SUPPRESSION_EXAMPLE),
  'suppression.imported': envelope('suppression.imported', importData, { seq: 1046, entries: 1_000 }),
  'suppression.removed': envelope('suppression.removed', suppressionData, {
    ...SUPPRESSION_EXAMPLE,
    seq: 1046,
  }),
  'tenant.suspended': envelope('tenant.suspended', tenantData, { seq: 1044, reason: 'billing' }),
  'tenant.resumed': envelope('tenant.resumed', tenantData, { seq: 1045, reason: 'billing' }),
  'tenant.brake_applied': envelope('tenant.brake_applied', brakeData, BRAKE_EXAMPLE),
  'tenant.brake_lifted': envelope('tenant.brake_lifted', brakeData, { ...BRAKE_EXAMPLE, seq: 1047 }),
  'limit.approaching': envelope('limit.approaching', limitData, {
    seq: 1046,
    limit: 'messagesPerDay',
    value: 10_000,
    used: 8_000,
  }),
  'limit.reached': envelope('limit.reached', limitData, {
    seq: 1047,
    limit: 'messagesPerDay',
    value: 10_000,
    used: 10_000,
  }),
} as const satisfies Readonly<Record<FeedEventType, z.ZodObject>>;

/** Schemas of all events that endpoints get, including test calls. */
export const WEBHOOK_EVENT_SCHEMAS = {
  ...EVENT_SCHEMAS,
  'test.ping': envelope('test.ping', pingData, { endpointId: ENDPOINT_EXAMPLE.endpointId }),
} as const satisfies Readonly<Record<WebhookEventType, z.ZodObject>>;

export type PingEnvelope = z.output<(typeof WEBHOOK_EVENT_SCHEMAS)['test.ping']>;
export type EventEnvelope = z.output<(typeof EVENT_SCHEMAS)[FeedEventType]>;

function envelope<const Type extends WebhookEventType, Data extends z.ZodObject>(
  type: Type,
  data: Data,
  example: z.output<Data>,
) {
  const name = type.replace(/(?:^|[._])([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return z
    .object({
      id: z.uuid().describe('Id of the event, the same each time it is read.'),
      type: z.literal(type),
      timestamp: z.iso.datetime().describe('When the event happened.'),
      data: data.meta({ id: `${name}Data`, description: `Data of \`${type}\`.` }),
    })
    .meta({
      id: `${name}Event`,
      description: WEBHOOK_EVENTS[type],
      examples: [
        {
          id: 'e3a2b1c0-9d8e-4f7a-b6c5-d4e3f2a1b0c9',
          type,
          timestamp: '2026-01-15T09:30:02.480Z',
          data: example,
        },
      ],
    });
}
