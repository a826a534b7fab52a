import type { z } from 'zod';
import { addressKey, type AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { ErrorDetail } from '#core/domain/fault/app-error.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { normalRecipient } from '#core/domain/recipient/normal-recipient.ts';
import { scopeOf, type SuppressionSource } from '#core/domain/recipient/suppression.ts';
import type { NewSuppression } from '#core/store/suppressions/suppressions.ts';
import type { AddSuppression } from './suppression-schema.ts';

/** A requested entry that passed the schema. */
export type AskedSuppression = Omit<z.output<typeof AddSuppression>, 'idempotencyKey'>;

/** The same with its address normalized. */
export type CheckedSuppression = AskedSuppression & { readonly normal: string };

/** Checks what the schema cannot: that the address is valid for the channel. */
export function checkSuppression(asked: AskedSuppression): CheckedSuppression | ErrorDetail {
  const { channel, address } = asked;
  const normal = normalRecipient(channel, address);
  if (normal === undefined) {
    return { field: 'address', rule: 'address', message: `Must be a recipient of the channel ${channel}` };
  }
  return { ...asked, normal };
}

export function hasExpired({ expiresAt }: AskedSuppression, now: number): boolean {
  return expiresAt !== null && Date.parse(expiresAt) <= now;
}

/** Returns the entry as it is stored. */
export function suppressionEntry(
  addressKeys: AddressKeyRoot,
  tenantId: TenantId,
  source: SuppressionSource,
  { channel, normal, reason, scope, expiresAt, hashed }: CheckedSuppression,
): NewSuppression {
  return {
    channel,
    key: addressKey(addressKeys, tenantId, channel, normal),
    address: hashed ? null : normal,
    reason,
    scope: scope ?? scopeOf(reason),
    source,
    expiresAt: expiresAt === null ? null : new Date(expiresAt).toISOString(),
  };
}
