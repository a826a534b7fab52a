import { z } from 'zod';
import { CHANNELS } from '#core/domain/channel.ts';
import { ENGAGEMENTS } from '#core/domain/engagement.ts';
import type { AnyProvider } from '#providers/provider.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { describeProvider } from '#providers/registry.ts';
import { ReceiptSetup } from './receipt-setup.ts';
import { defineRoute, type RouteModule } from '../http/routes-kit.ts';

const CatalogEntry = z
  .object({
    provider: z.string().describe('The id to create a provider account with.'),
    channel: z.enum(CHANNELS),
    name: z.string(),
    publicConfigSchema: z.record(z.string(), z.unknown()).describe('JSON Schema of `publicConfig`.'),
    secretConfigSchema: z.record(z.string(), z.unknown()).describe('JSON Schema of `secretConfig`.'),
    secretRoute: z
      .array(z.string())
      .describe(
        'Settings that decide where or how the secret travels: a change of one needs `secretConfig` in the same call.',
      ),
    receiptSetup: ReceiptSetup,
    capabilities: z.object({
      dedupe: z
        .enum(['key', 'lookup', 'none'])
        .describe('How the provider guards against a second copy of one message.'),
      receipts: z.boolean().describe('Whether it tells of deliveries.'),
      lookup: z
        .enum(['id', 'reference', 'none'])
        .describe(
          'Whether it is asked about a message whose receipt does not come: by its own id, or by the message id too, so that a call without an answer is cleared up.',
        ),
      bodyCharactersMax: z
        .int()
        .min(1)
        .max(65_536)
        .nullable()
        .describe(
          'Most characters of `body`; a longer one is refused as `content_rejected`. Null: no limit.',
        ),
      engagement: z
        .array(z.enum(ENGAGEMENTS))
        .describe('What it tells of recipients, beside the status of a message.'),
      unsupportedFields: z
        .array(z.string())
        .describe(
          'Fields of a message that it has no place for, such as `expiresAt` or `template.header`. No call is made past `expiresAt` in any case.',
        ),
    }),
    page: z.string().describe('Path of the page that describes the provider, with examples.'),
  })
  .meta({ id: 'CatalogEntry', description: 'One provider that accounts can be created for.' });

const Catalog = z.array(CatalogEntry).meta({
  id: 'ProviderCatalog',
  description: 'All providers that accounts can be created for.',
  examples: [[describeProvider(PROVIDERS.get('simulator-sms') as AnyProvider)]],
});

export function providerCatalogRoute(): RouteModule {
  const catalog = [...PROVIDERS.values()].map(describeProvider);
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/provider-catalog',
    operation: 'getProviderCatalog',
    summary: 'List the providers that accounts can be created for',
    description: 'With the settings and secrets that each of them needs, as JSON Schemas.',
    tag: 'Providers',
    auth: { kind: 'bearer', role: 'viewer' },
    response: Catalog,
    handler: async () => ({ body: catalog }),
  });
}
