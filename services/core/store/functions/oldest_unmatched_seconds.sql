-- How long the oldest event has waited to be matched with an endpoint of its tenant, since it has its number; 0 where none waits.
-- Up to 40 seconds say nothing: where no event passes an endpoint's filters a worker stores that seldom.
create or replace function oldest_unmatched_seconds() returns double precision
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
begin
  return coalesce((
    select extract(epoch from clock_timestamp() - min(f.numbered_at))
    from webhook_endpoints w
    join tenants t on t.id = w.tenant_id and t.status in ('active', 'suspended')
    join endpoint_reach r on r.id = any (array[w.id])
    cross join lateral (
      select x.numbered_at from feed x where x.tenant_id = w.tenant_id and x.last_seq > r.matched_to
      order by x.last_seq limit 1
    ) f
    where w.deleted_at is null), 0);
end $$;

grant execute on function oldest_unmatched_seconds() to despatch_worker;
