-- Returns the accounts that may send messages of these tenants, the oldest of each tenant first.
create or replace function accounts_of(tenant_ids uuid[])
returns table (tenant_id uuid, id uuid, channel text, provider text, status text, version integer, rate_limit_per_second integer)
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select p.tenant_id, p.id, p.channel, p.provider, p.status, p.version, p.rate_limit_per_second from provider_accounts p
  where p.tenant_id = any (tenant_ids) and p.status not in ('disabled', 'deleted') order by p.tenant_id, p.seq
$$;

grant execute on function accounts_of(uuid[]) to despatch_worker;
