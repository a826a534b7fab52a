import { addressKey } from '#core/domain/recipient/address-key.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { ADDRESS_KEYS } from './seed.ts';

export type PlantedSuppression = {
  readonly channel?: Channel;
  readonly address?: string;
  readonly reason?: string;
  readonly scope?: 'all' | 'marketing';
  /** An interval from now on; null: never. */
  readonly expiresIn?: string | null;
};

/** Adds a recipient of `acceptRow` to the tenant's suppression list. */
export async function plantSuppression(
  admin: Sql,
  tenantId: string,
  {
    channel = 'sms',
    address = '+15550000001',
    reason = 'manual',
    scope = 'all',
    expiresIn = null,
  }: PlantedSuppression = {},
): Promise<void> {
  await admin`insert into despatch.suppressions (tenant_id, channel, address_key, address, reason, scope, source, expires_at)
    values (${tenantId}, ${channel}, ${addressKey(ADDRESS_KEYS, tenantId, channel, address)}, ${address}, ${reason}, ${scope},
      'api', now() + ${expiresIn}::text::interval)`;
}
