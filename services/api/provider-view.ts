import { z } from 'zod';
import { CHANNELS } from '#core/domain/channel.ts';
import { PROVIDER_STATUSES, type ProviderAccount } from '#core/store/providers.ts';
import { isoOrNull } from './admin-change.ts';

export const Provider = z
  .object({
    id: z.uuid(),
    provider: z.string().describe('The id in the catalog.'),
    channel: z.enum(CHANNELS),
    label: z.string(),
    status: z.enum(PROVIDER_STATUSES),
    statusReason: z.string().nullable(),
    health: z
      .enum(['healthy', 'open', 'probing'])
      .describe('`open`: the provider fails, and calls are held back. `probing`: single calls try it again.'),
    configPublic: z.record(z.string(), z.unknown()).describe('`publicConfig` exactly as sent.'),
    rateLimitPerSecond: z.int().nullable(),
    secretVersion: z.int().min(1).describe('Rises with every new secret.'),
    verifiedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: 'Provider' });

export function viewProvider(account: ProviderAccount): z.output<typeof Provider> {
  return {
    ...account,
    verifiedAt: isoOrNull(account.verifiedAt),
    createdAt: account.createdAt.toISOString(),
    updatedAt: account.updatedAt.toISOString(),
  };
}
