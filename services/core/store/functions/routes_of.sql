-- Returns the routes in force of these tenants, as core/domain/routing/route.ts expects them.
create or replace function routes_of(tenant_ids uuid[])
returns table (tenant_id uuid, channel text, version integer, strategy text, steps json, failover_on text[], max_wait_ms integer,
  receipt_timeout_ms integer)
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select r.tenant_id, r.channel, r.version, r.strategy, r.steps, r.failover_on, r.max_wait_ms, r.receipt_timeout_ms from routes r
  where r.tenant_id = any (tenant_ids) and r.replaced_at is null
$$;

grant execute on function routes_of(uuid[]) to despatch_worker;
