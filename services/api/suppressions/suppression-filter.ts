import { z } from 'zod';
import { addressKey, type AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { CHANNELS, type Channel } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { normalRecipient } from '#core/domain/recipient/normal-recipient.ts';
import {
  SUPPRESSION_REASONS,
  SUPPRESSION_SCOPES,
  SUPPRESSION_SOURCES,
} from '#core/domain/recipient/suppression.ts';
import type { AddressName } from '#core/store/suppressions/suppressions.ts';
import { recipientFilter } from '../http/input/fields.ts';
import { ADDRESS_CHARACTERS_MAX } from './suppression-schema.ts';

/** The filter of a list of entries. */
export const suppressionFilter = {
  address: recipientFilter(ADDRESS_CHARACTERS_MAX)
    .optional()
    .describe('Only entries of this recipient, on any channel.'),
  channel: z.enum(CHANNELS).optional().describe('Only entries of this channel.'),
  reason: z.enum(SUPPRESSION_REASONS).optional().describe('Only entries for this reason.'),
  scope: z.enum(SUPPRESSION_SCOPES).optional().describe('Only entries of this scope.'),
  source: z.enum(SUPPRESSION_SOURCES).optional().describe('Only entries from this source.'),
};

/** Returns the keys under which a text may be stored; it is not a valid recipient on every channel. */
export function addressNames(root: AddressKeyRoot, tenantId: TenantId, text: string): AddressName[] {
  return CHANNELS.flatMap((channel: Channel) => {
    const address = normalRecipient(channel, text);
    return address === undefined ? [] : [{ channel, key: addressKey(root, tenantId, channel, address) }];
  });
}
