import { asJson, type TransactionSql } from '#core/platform/postgres/postgres.ts';

/** A row of `suppressions` in the form of `row_to_json`. */
export type SuppressionRow = {
  readonly id: string;
  readonly tenant_id: string;
  readonly channel: string;
  /** Hex, after `\x`. */
  readonly address_key: string;
  /** Null: not stored, or not known. */
  readonly address: string | null;
  readonly reason: string;
  readonly scope: string;
  readonly source: string;
  readonly message_id: string | null;
  readonly expires_at: string | null;
  readonly created_at: string;
};

/**
 * Stores entries that a restore has undone; expired ones have no effect. Like the statements that replace an entry while services
 * run, it replaces an expired one, and widens and extends one in force that blocks less. Unlike a member's new entry, it
 * neither narrows nor shortens what the restored database blocks. The store has no statement for this: those that only widen
 * know no expiry.
 * @param rows at most one for each recipient and reason.
 * @returns the number of entries that were added or replaced.
 */
export async function suppressAgain(tx: TransactionSql, rows: readonly SuppressionRow[]): Promise<number> {
  const { count } = await tx`
    insert into suppressions as s (id, tenant_id, channel, address_key, address, reason, scope, source, message_id, expires_at,
      created_at)
    select e.id, e.tenant_id, e.channel, e.address_key, e.address, e.reason, e.scope, e.source, e.message_id, e.expires_at,
      e.created_at
    from json_populate_recordset(null::suppressions, ${asJson(tx, rows)}) e
    where coalesce(e.expires_at, 'infinity') > clock_timestamp()
    on conflict (address_key, reason) do update set
      id = excluded.id, seq = default, source = excluded.source, message_id = excluded.message_id,
      created_at = excluded.created_at,
      address = case when s.expires_at <= clock_timestamp() then excluded.address else coalesce(excluded.address, s.address) end,
      scope = case when s.expires_at <= clock_timestamp() or excluded.scope = 'all' then excluded.scope else s.scope end,
      expires_at = nullif(greatest(coalesce(s.expires_at, 'infinity'), coalesce(excluded.expires_at, 'infinity')), 'infinity')
    where s.expires_at < coalesce(excluded.expires_at, 'infinity') or (s.scope = 'marketing' and excluded.scope = 'all')`;
  return count;
}
