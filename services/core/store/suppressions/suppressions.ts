import type { Channel } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type {
  Suppression,
  SuppressionReason,
  SuppressionScope,
  SuppressionSource,
} from '#core/domain/recipient/suppression.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';
import { scannedOf, type ScanRange, type Scanned, type ScannedRow } from '../query/scan.ts';

/** A recipient in the form in which it is looked up. */
export type AddressName = { readonly channel: Channel; readonly key: Buffer };

export type NewSuppression = AddressName &
  Pick<Suppression, 'address' | 'reason' | 'scope' | 'source'> & {
    /** ISO 8601; null: never. */
    readonly expiresAt: string | null;
  };

export type SuppressionFilter = {
  readonly channel?: Channel | undefined;
  readonly reason?: SuppressionReason | undefined;
  readonly scope?: SuppressionScope | undefined;
  readonly source?: SuppressionSource | undefined;
  /** Only entries of these recipients. */
  readonly addresses?: readonly AddressName[] | undefined;
};

/** With its position in the list. */
export type ListedSuppression = Suppression & { readonly seq: number };

const columns = (tx: TransactionSql) =>
  tx`id, channel, address, reason, scope, source, message_id, expires_at, created_at`;

/** Adds an entry, replacing the recipient's entry for the same reason. A trigger writes the event. */
export async function putSuppression(
  tenantId: TenantId,
  tx: TransactionSql,
  { channel, key, address, reason, scope, source, expiresAt }: NewSuppression,
): Promise<Suppression> {
  const [row] = camelRows<Suppression>(
    await tx`
      insert into suppressions (tenant_id, channel, address_key, address, reason, scope, source, expires_at)
      values (${tenantId}, ${channel}, ${key}, ${address}, ${reason}, ${scope}, ${source}, ${expiresAt})
      on conflict (address_key, reason) do update set
        id = excluded.id, seq = default, address = excluded.address, scope = excluded.scope, source = excluded.source,
        message_id = null, expires_at = excluded.expires_at, created_at = excluded.created_at
      returning ${columns(tx)}`.values(),
  );
  if (row === undefined) throw new Error('a suppression returned no row');
  return row;
}

/**
 * Suppresses marketing mail to a recipient who unsubscribed, without an expiry: replaces an entry that expires, and never narrows
 * its scope. A trigger writes the event.
 * @returns undefined if the recipient was unsubscribed already.
 */
export async function unsubscribeRecipient(
  tenantId: TenantId,
  tx: TransactionSql,
  { key, address, messageId }: { readonly key: Buffer; readonly address: string; readonly messageId: string },
): Promise<Suppression | undefined> {
  const [row] = camelRows<Suppression>(
    await tx`
      insert into suppressions as s (tenant_id, channel, address_key, address, reason, scope, source, message_id)
      values (${tenantId}, 'email', ${key}, ${address}, 'unsubscribe', 'marketing', 'recipient', ${messageId})
      on conflict (address_key, reason) do update set
        id = excluded.id, seq = default, source = excluded.source, message_id = excluded.message_id, expires_at = null,
        created_at = excluded.created_at,
        address = case when s.expires_at <= clock_timestamp() then excluded.address else s.address end,
        scope = case when s.expires_at <= clock_timestamp() then excluded.scope else s.scope end
        where s.expires_at is not null
      returning ${columns(tx)}`.values(),
  );
  return row;
}

/** Whether `unsubscribeRecipient` would change nothing. */
export async function isUnsubscribed(tx: TransactionSql, key: Buffer): Promise<boolean> {
  const rows = await tx`
    select from suppressions where address_key = ${key} and reason = 'unsubscribe' and expires_at is null`;
  return rows.length > 0;
}

/** Finds an entry; expired entries are never returned. */
export async function findSuppression(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
): Promise<Suppression | undefined> {
  const [row] = camelRows<Suppression>(
    await tx`
      select ${columns(tx)} from suppressions
      where tenant_id = ${tenantId} and id = ${id} and coalesce(expires_at, 'infinity') > clock_timestamp()`.values(),
  );
  return row;
}

/** Deletes an entry. @returns the deleted entry. A trigger writes the event. */
export async function deleteSuppression(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
): Promise<Suppression | undefined> {
  const [row] = camelRows<Suppression>(
    await tx`
      delete from suppressions
      where tenant_id = ${tenantId} and id = ${id} and coalesce(expires_at, 'infinity') > clock_timestamp()
      returning ${columns(tx)}`.values(),
  );
  return row;
}

/** Reads the entries in force, newest first. */
export async function scanSuppressions(
  tenantId: TenantId,
  tx: TransactionSql,
  { channel, reason, scope, source, addresses }: SuppressionFilter,
  { before, rows, most }: ScanRange<number>,
): Promise<Scanned<ListedSuppression, number>> {
  const scanned = camelRows<ScannedRow<ListedSuppression>>(
    await tx`
      with named as materialized (
        select s.* from unnest(${(addresses ?? []).map(({ channel: of }) => of)}::text[],
          ${(addresses ?? []).map(({ key }) => key.toString('hex'))}::text[]) as n (channel, key)
        join suppressions s on s.tenant_id = ${tenantId} and s.channel = n.channel
          and s.address_key = decode(n.key, 'hex')
      ), scanned as materialized (
        select * from ${addresses === undefined ? tx`suppressions` : tx`named`}
        where tenant_id = ${tenantId} ${before === undefined ? tx`` : tx`and seq < ${before}`}
        order by seq desc limit ${rows}
      ), found as (
        select seq, ${columns(tx)} from scanned
        where coalesce(expires_at, 'infinity') > clock_timestamp()
          ${channel === undefined ? tx`` : tx`and channel = ${channel}`}
          ${reason === undefined ? tx`` : tx`and reason = ${reason}`}
          ${scope === undefined ? tx`` : tx`and scope = ${scope}`}
          ${source === undefined ? tx`` : tx`and source = ${source}`}
        order by seq desc limit ${most}
      ), reach as (
        select count(*)::integer as scanned, min(r.seq) as end_seq from scanned r
      )
      select r.scanned, r.end_seq, f.* from reach r left join found f on true order by f.seq desc`.values(),
  );
  return scannedOf(scanned);
}
