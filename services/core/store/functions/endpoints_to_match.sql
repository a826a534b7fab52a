-- Returns the endpoints of these tenants with their filters, and how far their tenants' feeds are matched. `ready`: whether due
-- rows of the endpoint may be claimed at once. `server`: the start time of this database server, which changes after a failover.
-- A tenant that is being deleted has no rows.
create or replace function endpoints_to_match(of_tenants uuid[])
returns table (id uuid, tenant_id uuid, event_types text[], final_only boolean, channels text[], tags text[], version integer,
  matched_to bigint, ready boolean, server bigint)
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  return query
    select w.id, w.tenant_id, w.event_types, w.final_only, w.channels, w.tags, w.version, r.matched_to,
      w.status = 'active' and not w.ordered and w.rate_limit_per_second is null and w.call_at <= clock_timestamp(),
      (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint
    from webhook_endpoints w
    join tenants t on t.id = w.tenant_id and t.status in ('active', 'suspended')
    join endpoint_reach r on r.id = any (array[w.id])
    where w.tenant_id = any (of_tenants) and w.deleted_at is null;
end $$;

grant execute on function endpoints_to_match(uuid[]) to despatch_worker;
