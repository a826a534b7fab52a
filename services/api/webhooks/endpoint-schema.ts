import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { FEED_EVENT_PREFIXES, FEED_EVENT_TYPES } from '#core/domain/webhooks/feed-event.ts';
import {
  WEBHOOK_HEADER_CHARACTERS_MAX,
  WEBHOOK_HEADERS_MAX,
  webhookHeaderFaults,
} from '#core/domain/webhooks/webhook-headers.ts';
import { SIGNATURES, type Signature } from '#core/store/webhooks/webhook-endpoints.ts';
import { atMostPairs, graceSecondsField, text } from '../http/input/fields.ts';
import { idempotencyKeyField } from '../http/routes/idempotency.ts';

const EVENT_TYPES_MAX = 50;
const TAGS_MAX = 10;
const PEM_CHARACTERS_MAX = 16_384;
export const RATE_MAX = 1_000;

/** The values of `eventTypes`: a type, a prefix of types, or `*` for all. */
const EVENT_NAMES = [...FEED_EVENT_TYPES, ...FEED_EVENT_PREFIXES, '*'] as const;

const headers = atMostPairs(WEBHOOK_HEADERS_MAX, z.record(z.string(), z.string()))
  .check((context) => {
    const { value } = context;
    for (const { name, rule, message } of webhookHeaderFaults(value)) {
      context.issues.push({ code: 'custom', input: value[name], path: [name], params: { rule }, message });
    }
  })
  .describe(
    `Additional headers of each call. Values of 1 to ${WEBHOOK_HEADER_CHARACTERS_MAX} visible ASCII characters. If the name contains \`authorization\`, \`token\`, \`key\` or \`secret\`, only the last four characters of the value are shown.`,
  );

const pem = z.string().min(1).max(PEM_CHARACTERS_MAX, `Must be at most ${PEM_CHARACTERS_MAX} characters`);
const clientCertificate = z
  .object({
    certificate: pem.describe('PEM, followed by the intermediate certificates.'),
    key: pem.describe('PEM, without a passphrase.'),
  })
  .meta({
    id: 'ClientCertificate',
    description: 'Presented to a server that requests a client certificate. Never returned.',
  });

const fields = {
  url: z
    .string()
    .min(1)
    .max(2_000, 'Must be at most 2000 characters')
    .describe(
      'URL that receives the events: an https URL on port 443, without a user, a password or a fragment. Other ports and addresses of private networks require the permission of the operator.',
    ),
  description: text(1, 500).describe('For people.'),
  eventTypes: z
    .array(z.enum(EVENT_NAMES))
    .min(1, 'Must name at least one type')
    .max(EVENT_TYPES_MAX, `Must have at most ${EVENT_TYPES_MAX} items`)
    .transform(once)
    .describe(
      'Events that the endpoint receives: types, prefixes of types such as `message.*`, or `*` for all.',
    ),
  finalOnly: z
    .boolean()
    .describe(
      'Of a message only the events that end it, such as `message.delivered`, and `message.sent` if no report is expected after it. A late report may still follow a `message.unknown`, or a `message.undelivered` whose provider continues to try.',
    ),
  channels: z
    .array(z.enum(CHANNELS))
    .max(CHANNELS.length)
    .transform(once)
    .describe('Only events of messages of these channels, and events without a message. Empty: all.'),
  tags: z
    .array(text(1, 64))
    .max(TAGS_MAX, `Must have at most ${TAGS_MAX} items`)
    .transform(once)
    .describe('Only events of messages with one of these tags, and events without a message. Empty: all.'),
  headers,
  ordered: z
    .boolean()
    .describe(
      'Events of one message are delivered one after the other: a later event waits until the earlier ones have succeeded or are given up.',
    ),
  maskRecipients: z
    .boolean()
    .describe(
      'Recipients are masked: `data.to` of messages, and `data.address` of entries of the suppression list.',
    ),
  rateLimitPerSecond: z
    .int()
    .min(1)
    .max(RATE_MAX)
    .describe('The most calls within any second. Null: no limit.'),
  signatures: z
    .array(z.enum(SIGNATURES))
    .max(SIGNATURES.length)
    .transform((names) =>
      SIGNATURES.filter((name): name is Signature => name === 'v1' || names.includes(name)),
    )
    .describe(
      "`v1`: HMAC with the endpoint's secret, always present. `v1a`: also Ed25519 with the tenant's key, see `getWebhookKeys`.",
    ),
  clientCertificate,
};

export const CreateEndpoint = z
  .object({
    url: fields.url,
    eventTypes: fields.eventTypes,
    description: fields.description.nullable().default(null),
    finalOnly: fields.finalOnly.default(false),
    channels: fields.channels.default([]),
    tags: fields.tags.default([]),
    headers: fields.headers.default({}),
    ordered: fields.ordered.default(false),
    maskRecipients: fields.maskRecipients.default(false),
    rateLimitPerSecond: fields.rateLimitPerSecond.nullable().default(null),
    signatures: fields.signatures.default(['v1']),
    clientCertificate: fields.clientCertificate.nullable().default(null),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'CreateWebhookEndpoint',
    description: 'An endpoint to create.',
    examples: [
      { url: 'https://shop.example.com/hooks/despatch', eventTypes: ['message.*'], finalOnly: true },
    ],
  });

export const UpdateEndpoint = z
  .object({
    url: fields.url.optional(),
    eventTypes: fields.eventTypes.optional(),
    description: fields.description.nullable().optional(),
    finalOnly: fields.finalOnly.nullable().optional(),
    channels: fields.channels.nullable().optional(),
    tags: fields.tags.nullable().optional(),
    headers: fields.headers.nullable().optional(),
    ordered: fields.ordered.nullable().optional(),
    maskRecipients: fields.maskRecipients.nullable().optional(),
    rateLimitPerSecond: fields.rateLimitPerSecond.nullable().optional(),
    signatures: fields.signatures.nullable().optional(),
    clientCertificate: fields.clientCertificate.nullable().optional(),
  })
  .meta({
    id: 'UpdateWebhookEndpoint',
    description: 'Changes to an endpoint.',
    examples: [{ eventTypes: ['message.delivered', 'message.undelivered'], rateLimitPerSecond: 50 }],
  });

export const RotateSecret = z
  .object({
    graceSeconds: graceSecondsField(
      'For how many more seconds the previous secret signs beside the new one.',
    ),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'RotateWebhookSecret',
    description: 'How to rotate the secret of an endpoint.',
    examples: [{ graceSeconds: 86_400 }],
  });

function once<T>(items: readonly T[]): T[] {
  return [...new Set(items)];
}
