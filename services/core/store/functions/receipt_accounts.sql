-- Returns the facts about accounts that are needed to take in receipt calls, for many accounts in one query. An unknown or
-- deleted account has no row.
create or replace function receipt_accounts(ids uuid[])
returns table (id uuid, tenant_id uuid, provider text, receipt_version integer, receipt_grace_until timestamptz)
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select p.id, p.tenant_id, p.provider, p.receipt_version, p.receipt_grace_until
  from provider_accounts p where p.id = any (ids) and p.status <> 'deleted'
$$;

grant execute on function receipt_accounts(uuid[]) to despatch_api;
