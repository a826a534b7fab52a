import { z } from 'zod';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { graceSecondsField, text, withAlias } from '../../http/input/fields.ts';
import { warningsField } from '../../http/routes/request-warnings.ts';
import { idempotencyKeyField } from '../../http/routes/idempotency.ts';
import { RECEIPT_URL } from './account-view.ts';
import { CONFIG_VALUES_MAX, configField } from './config-field.ts';

/** The ids of the providers in the catalog. */
export const CATALOG_IDS = [...PROVIDERS.keys()] as [string, ...string[]];

const fields = {
  label: text(2, 80).describe("The tenant's own name for the account."),
  publicConfig: withAlias(
    'configPublic',
    configField().describe(
      `Settings, by the provider's schema in the catalog. Keys in either spelling. Stored and returned as sent, as \`configPublic\`, which is also accepted as the name of this field. At most ${CONFIG_VALUES_MAX} values, including nested ones.`,
    ),
  ),
  secretConfig: configField().describe(
    `Secrets, by the schema in the catalog. Encrypted at once, and never returned. At most ${CONFIG_VALUES_MAX} values, including nested ones.`,
  ),
  rateLimitPerSecond: z
    .int()
    .min(1)
    .max(10_000)
    .nullable()
    .describe('The most messages, or sms segments, that are sent within any second. Null: no limit.'),
};

export const CreateProvider = z
  .object({
    provider: z.enum(CATALOG_IDS).describe('Id of a provider in the catalog; determines the channel.'),
    label: fields.label,
    publicConfig: fields.publicConfig.default({}),
    secretConfig: fields.secretConfig,
    rateLimitPerSecond: fields.rateLimitPerSecond.default(null),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'CreateProvider',
    description: 'A provider account to create.',
    examples: [
      {
        provider: 'twilio',
        label: 'Twilio, main account',
        publicConfig: { accountSid: `AC${'0'.repeat(32)}`, from: '+15550000100' },
        secretConfig: { authToken: 'the token of the account' },
      },
    ],
  });

export const UpdateProvider = z
  .object({
    label: fields.label.optional(),
    publicConfig: fields.publicConfig.nullable().optional(),
    secretConfig: fields.secretConfig.optional(),
    rateLimitPerSecond: fields.rateLimitPerSecond.optional(),
  })
  .meta({
    id: 'UpdateProvider',
    description: 'Changes to a provider account.',
    examples: [{ label: 'Twilio, second account', rateLimitPerSecond: 20 }],
  });

export const ReplaceProviderSecret = z.object({ secretConfig: fields.secretConfig }).meta({
  id: 'ReplaceProviderSecret',
  description: 'All new secrets of a provider account.',
  examples: [{ secretConfig: { authToken: 'the new token of the account' } }],
});

export const ProviderSecret = z
  .object({
    id: z.uuid().describe('Id of the provider account.'),
    secretVersion: z.int().min(1).max(INT32_MAX),
    rotatedAt: z.iso.datetime(),
    ...warningsField,
  })
  .meta({
    id: 'ProviderSecret',
    description: 'Current version of the secrets.',
    examples: [
      {
        id: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
        secretVersion: 2,
        rotatedAt: '2026-01-15T09:30:00.000Z',
      },
    ],
  });

export const RotateReceiptUrl = z
  .object({
    graceSeconds: graceSecondsField('For how many more seconds the previous URL is valid.', 604_800),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'RotateReceiptUrl',
    description: 'How to rotate a receipt URL.',
    examples: [{ graceSeconds: 604_800 }],
  });

export const RotatedReceiptUrl = z
  .object({
    id: z.uuid().describe('Id of the provider account.'),
    receiptUrl: z.string().describe('The new URL. Enter it at the provider if that is done manually.'),
    previousUntil: z.iso
      .datetime()
      .nullable()
      .describe('Until when the previous URL is also valid. Null: it is not.'),
    ...warningsField,
  })
  .meta({
    id: 'RotatedReceiptUrl',
    description: 'The new URL for the receipts of a provider.',
    examples: [
      {
        id: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
        receiptUrl: RECEIPT_URL,
        previousUntil: '2026-01-22T09:30:00.000Z',
      },
    ],
  });

export type RotatedReceiptUrl = z.output<typeof RotatedReceiptUrl>;
