import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { ENGAGEMENTS } from '#core/domain/receipts/engagement.ts';
import type { AnyProvider } from '#providers/provider.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { describeProvider } from '#providers/registry.ts';
import { ReceiptSetup } from './receipt-setup.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';

const CatalogEntry = z
  .object({
    provider: z.string().describe('Id of the provider, for creating an account.'),
    channel: z.enum(CHANNELS),
    name: z.string(),
    publicConfigSchema: z.record(z.string(), z.unknown()).describe('JSON Schema of `publicConfig`.'),
    secretConfigSchema: z.record(z.string(), z.unknown()).describe('JSON Schema of `secretConfig`.'),
    secretRoute: z
      .array(z.string())
      .describe(
        'Settings that determine where or how the secret is sent: changing one requires `secretConfig` in the same call.',
      ),
    receiptSetup: ReceiptSetup,
    capabilities: z.object({
      dedupe: z
        .enum(['key', 'lookup', 'none'])
        .describe('How the provider prevents a second copy of a message.'),
      receipts: z.boolean().describe('Whether the provider reports deliveries.'),
      lookup: z
        .enum(['id', 'reference', 'none'])
        .describe(
          "Whether the provider is asked about a message whose receipt does not arrive: by the provider's own id, or also by the message id, which resolves a call without an answer.",
        ),
      bodyCharactersMax: z
        .int()
        .min(1)
        .max(65_536)
        .nullable()
        .describe(
          'Maximum number of characters of `body`; a longer one is refused as `content_rejected`. Null: no limit.',
        ),
      engagement: z
        .array(z.enum(ENGAGEMENTS))
        .describe('What the provider reports about recipients, besides the status of a message.'),
      unsupportedFields: z
        .array(z.string())
        .describe(
          'Message fields that the provider does not support, such as `expiresAt` or `template.header`. No call is made after `expiresAt` in any case.',
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
    description: 'With the settings and secrets that each of them requires, as JSON Schemas.',
    tag: 'Providers',
    auth: { kind: 'bearer', role: 'viewer' },
    response: Catalog,
    handler: async () => ({ body: catalog }),
  });
}
