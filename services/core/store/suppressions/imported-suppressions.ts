import type { TenantId } from '#core/domain/storage/ids.ts';
import { asJson, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { NewSuppression } from './suppressions.ts';

/** The numbers of new entries and of entries that replaced another one. */
export type ImportedSuppressions = { readonly created: number; readonly replaced: number };

/**
 * Adds the entries of an import. Of two for the same recipient and reason the later one counts. An existing entry stays if the
 * new one is equal to it, or if it came from a recipient or provider and the new one would block less. A trigger writes the
 * events.
 * @param entries at most a thousand: transactions that suppress the same recipients wait meanwhile.
 */
export async function importSuppressions(
  tenantId: TenantId,
  tx: TransactionSql,
  entries: readonly NewSuppression[],
): Promise<ImportedSuppressions> {
  const rows = entries.map(({ key, expiresAt, ...entry }, nth) => ({
    ...entry,
    nth,
    address_key: key.toString('hex'),
    expires_at: expiresAt,
  }));
  const [counts] = await tx<ImportedSuppressions[]>`
    with given as (
      -- In the same order wherever they come from: two that add the same wait for each other.
      select distinct on (e.address_key, e.reason) decode(e.address_key, 'hex') as address_key, e.channel, e.address, e.reason,
        e.scope, e.source, e.expires_at
      from json_to_recordset(${asJson(tx, rows)}) as e (nth integer, address_key text, channel text, address text, reason text,
        scope text, source text, expires_at timestamptz)
      order by e.address_key, e.reason, e.nth desc
    ), stored as (
      insert into suppressions as s (tenant_id, channel, address_key, address, reason, scope, source, expires_at)
      select ${tenantId}, g.channel, g.address_key, g.address, g.reason, g.scope, g.source, g.expires_at from given g
      order by g.address_key, g.reason
      on conflict (address_key, reason) do update set
        id = excluded.id, seq = default, address = excluded.address, scope = excluded.scope, source = excluded.source, message_id = null,
        expires_at = excluded.expires_at, created_at = excluded.created_at
      where (s.address, s.scope, s.expires_at) is distinct from (excluded.address, excluded.scope, excluded.expires_at)
        -- A file may be older than what recipients have said since.
        and (s.source in ('api', 'import') or s.expires_at <= clock_timestamp()
          or (excluded.expires_at is null and (excluded.scope = 'all' or s.scope = 'marketing')))
      returning xmax = 0 as is_new
    )
    select count(*) filter (where is_new)::integer as created, count(*) filter (where not is_new)::integer as replaced
    from stored`;
  if (counts === undefined) throw new Error('an import of suppressions returned no row');
  return counts;
}
