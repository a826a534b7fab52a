import { addressKeyHex, type AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import { suppressionFor, type SuppressionCause } from '#core/domain/recipient/suppression-cause.ts';
import type { SuppressionSource } from '#core/domain/recipient/suppression.ts';
import { asJson, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';

/** What a provider or recipient reported about the recipient of a message. */
export type CausedSuppression = {
  readonly seq: number;
  readonly purgeOn: string;
  readonly cause: SuppressionCause;
  /** Whether it counts towards a brake. */
  readonly isHit: boolean;
};

type Recipient = {
  readonly seq: number;
  readonly messageId: string;
  readonly tenantId: string;
  readonly channel: Channel;
  readonly address: string;
};

/**
 * Adds recipients to their tenants' suppression lists, in the transaction that records the reports, and notes the reports that
 * count towards a brake.
 */
export async function suppressCaused(
  tx: TransactionSql,
  addressKeys: AddressKeyRoot,
  source: SuppressionSource,
  caused: readonly CausedSuppression[],
): Promise<void> {
  if (caused.length === 0) return;
  const hits = caused.filter(({ isHit }) => isHit);
  if (hits.length > 0) {
    const causes = hits.map(({ cause }) => cause);
    const hitDays = hits.map(({ purgeOn }) => purgeOn);
    await tx`select note_hits(${hits.map(({ seq }) => seq)}::bigint[], ${hitDays}::text[]::date[], ${causes}::text[])`;
  }
  const seqs = caused.map(({ seq }) => seq);
  const days = caused.map(({ purgeOn }) => purgeOn);
  const found = camelRows<Recipient>(
    await tx`select * from recipients_of(${seqs}::bigint[], ${days}::text[]::date[])`.values(),
  );
  const recipients = new Map(found.map((one) => [one.seq, one]));
  const entries = caused.flatMap(({ seq, cause }) => {
    const recipient = recipients.get(seq);
    if (recipient === undefined) return [];
    const { tenantId, channel, address, messageId } = recipient;
    return {
      ...suppressionFor(cause, channel),
      tenant_id: tenantId,
      channel,
      address,
      address_key: addressKeyHex(addressKeys, tenantId, channel, address),
      source,
      message_id: messageId,
    };
  });
  if (entries.length > 0) await tx`select suppress_recipients(${asJson(tx, entries)})`;
}
