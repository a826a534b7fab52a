import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import {
  SUPPRESSION_REASONS,
  SUPPRESSION_SCOPES,
  SUPPRESSION_SOURCES,
  type Suppression as SuppressionRecord,
} from '#core/domain/recipient/suppression.ts';
import { text } from '../http/input/fields.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { idempotencyKeyField } from '../http/routes/idempotency.ts';
import { timeField } from '../http/input/time-field.ts';

/** The length of the longest device token that a message can be sent to. */
export const ADDRESS_CHARACTERS_MAX = 4_096;

const addressField = text(1, ADDRESS_CHARACTERS_MAX).describe(
  'A recipient as in messages: an E.164 number, an email address or a device token.',
);

export const AddSuppression = z
  .object({
    channel: z.enum(CHANNELS),
    address: addressField,
    reason: z.enum(SUPPRESSION_REASONS).default('manual'),
    scope: z
      .enum(SUPPRESSION_SCOPES)
      .optional()
      .describe(
        'Messages that are not sent: `all`, or those of the category `marketing`. Defaults to `marketing` for complaint and unsubscribe, else to `all`.',
      ),
    expiresAt: timeField()
      .nullable()
      .default(null)
      .describe('Must be in the future. From then on the entry has no effect. Null: it does not expire.'),
    hashed: z
      .boolean()
      .default(false)
      .describe('Store only a keyed hash of the address, by which messages and look-ups find the entry.'),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'AddSuppression',
    description: 'A recipient to suppress.',
    examples: [{ channel: 'email', address: 'ann@example.com', reason: 'unsubscribe' }],
  });

export const Suppression = z
  .object({
    id: z.uuid(),
    channel: z.enum(CHANNELS),
    address: z.string().nullable().describe('In normalized form; null if only its hash is kept.'),
    hashed: z.boolean(),
    reason: z.enum(SUPPRESSION_REASONS),
    scope: z.enum(SUPPRESSION_SCOPES).describe('`marketing`: messages of other categories are sent.'),
    source: z
      .enum(SUPPRESSION_SOURCES)
      .describe(
        "Source of the entry: a member by a call (`api`) or an `import`, the provider's `receipt` or its `refusal` of a message, or the `recipient`.",
      ),
    messageId: z.uuid().nullable().describe('The message that caused it.'),
    expiresAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    ...warningsField,
  })
  .meta({
    id: 'Suppression',
    description: 'A recipient that must not receive messages.',
    examples: [
      {
        id: '7c1e5a90-2b3d-4f6a-9e8c-0d1f2a3b4c5d',
        channel: 'email',
        address: 'ann@example.com',
        hashed: false,
        reason: 'unsubscribe',
        scope: 'marketing',
        source: 'api',
        messageId: null,
        expiresAt: null,
        createdAt: '2026-01-15T09:30:00.000Z',
      },
    ],
  });

export function viewSuppression(entry: SuppressionRecord): z.output<typeof Suppression> {
  const { id, channel, address, reason, scope, source, messageId, expiresAt, createdAt } = entry;
  return {
    id,
    channel,
    address,
    hashed: address === null,
    reason,
    scope,
    source,
    messageId,
    expiresAt: expiresAt?.toISOString() ?? null,
    createdAt: createdAt.toISOString(),
  };
}
