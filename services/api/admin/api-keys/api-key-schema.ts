import { z } from 'zod';
import { SCOPES, type Scope } from '#core/domain/tenant/role.ts';
import { KEY_MODES } from '#core/domain/tenant/service-key.ts';
import { API_KEY_STATUSES } from '#core/store/tenants/api-keys.ts';
import { warningsField } from '../../http/routes/request-warnings.ts';
import { idempotencyKeyField } from '../../http/routes/idempotency.ts';
import { graceSecondsField, text } from '../../http/input/fields.ts';
import { timeField } from '../../http/input/time-field.ts';

const DEFAULT_SCOPES: readonly Scope[] = ['messages:send', 'messages:read'];

const fields = {
  name: text(2, 80),
  scopes: z
    .array(z.enum(SCOPES))
    .min(1, 'Must name at least one scope')
    .max(20, 'Must have at most 20 items')
    .describe(
      '`messages:send`: send, cancel and reschedule messages. `messages:read`: read messages, their attempts and events. `events:read`: read the feed of all events.',
    ),
  rateLimitRpm: z
    .int()
    .min(1)
    .max(60_000)
    .nullable()
    .describe("Send requests per minute. Null: the plan's limit."),
  expiresAt: timeField().nullable().describe('Must be in the future. Null: the key does not expire.'),
};

export const CreateApiKey = z
  .object({
    name: fields.name,
    mode: z
      .enum(KEY_MODES)
      .default('live')
      .describe('`test`: calls no provider, and does not count against `messagesPerDay`.'),
    scopes: fields.scopes.default([...DEFAULT_SCOPES]),
    rateLimitRpm: fields.rateLimitRpm.default(null),
    expiresAt: fields.expiresAt.default(null),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'CreateApiKey',
    description: 'A key to create.',
    examples: [{ name: 'Shop backend', mode: 'live', scopes: ['messages:send'], rateLimitRpm: 600 }],
  });

export const UpdateApiKey = z
  .object({
    name: fields.name.optional(),
    scopes: fields.scopes.optional(),
    rateLimitRpm: fields.rateLimitRpm.optional(),
    expiresAt: fields.expiresAt.optional(),
  })
  .meta({
    id: 'UpdateApiKey',
    description: 'Changes to a key.',
    examples: [{ name: 'Shop backend, old', rateLimitRpm: null }],
  });

export const RotateApiKey = z
  .object({
    graceSeconds: graceSecondsField('For how many more seconds the previous key is valid.'),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'RotateApiKey',
    description: 'How to rotate a key.',
    examples: [{ graceSeconds: 86_400 }],
  });

const EXAMPLE = {
  id: '0b8f6f0e-53c1-4a6e-8f0b-5e1d7c2a9b34',
  name: 'Shop backend',
  prefix: 'dsp_live_0M5xq9LkT2aBcD3e',
  mode: 'live',
  scopes: ['messages:send'],
  rateLimitRpm: 600,
  expiresAt: null,
  createdAt: '2026-01-15T09:30:00.000Z',
  lastUsedAt: null,
  status: 'active',
  graceUntil: null,
};

export const ApiKey = z
  .object({
    id: z.uuid(),
    name: z.string(),
    prefix: z.string().describe('The part of the key that may be shown.'),
    mode: z.enum(KEY_MODES),
    scopes: z.array(z.enum(SCOPES)),
    rateLimitRpm: z.int().min(1).max(60_000).nullable(),
    expiresAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    lastUsedAt: z.iso.datetime().nullable(),
    status: z.enum(API_KEY_STATUSES),
    graceUntil: z.iso
      .datetime()
      .nullable()
      .describe('While `rotating`: until when the previous key is also valid.'),
    ...warningsField,
  })
  .meta({ id: 'ApiKey', description: 'A key of a tenant, without its secret.', examples: [EXAMPLE] });
export type ApiKey = z.output<typeof ApiKey>;

export const ApiKeyWithSecret = ApiKey.extend({
  key: z.string().describe('The key itself. Shown only once.'),
}).meta({
  id: 'ApiKeyWithSecret',
  description: 'A key with its secret.',
  examples: [{ ...EXAMPLE, key: `${EXAMPLE.prefix}_${'0'.repeat(43)}_000000` }],
});
export type ApiKeyWithSecret = z.output<typeof ApiKeyWithSecret>;
