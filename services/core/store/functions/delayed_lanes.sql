-- Returns those of these lanes whose route limits how long a message waits for its account (`max_wait_ms`).
create or replace function delayed_lanes(of_tenants uuid[], of_accounts uuid[]) returns table (tenant_id uuid, account_id uuid)
language sql stable security definer set search_path = despatch, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
  select p.tenant_id, p.id from unnest(of_tenants, of_accounts) as u (tenant_id, account_id)
  join provider_accounts p on p.id = u.account_id and p.tenant_id = u.tenant_id
  join routes r on r.tenant_id = p.tenant_id and r.channel = p.channel and r.replaced_at is null and r.max_wait_ms is not null
$$;

grant execute on function delayed_lanes(uuid[], uuid[]) to despatch_worker;
