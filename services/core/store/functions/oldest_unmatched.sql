-- Returns how long the oldest event of these tenants has waited to be matched with an endpoint, since it got its number; 0 if
-- none waits. `of_tenants` null: all tenants, which reads all endpoints. `tenant_ids`: the tenants with waiting events. Values up
-- to 40 seconds mean nothing: where no event passes an endpoint's filters, a worker stores its progress that rarely.
create or replace function oldest_unmatched(of_tenants uuid[]) returns table (seconds double precision, tenant_ids uuid[])
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  ids uuid[];
begin
  if of_tenants is null then
    ids := array(select w.id from webhook_endpoints w where w.deleted_at is null);
  else
    -- Written so that no partial index matches: while the table is small the planner would scan such an index as a whole.
    ids := array(select w.id from unnest(of_tenants) as o (id)
      join webhook_endpoints w on w.tenant_id = any (array[o.id]) and coalesce(w.deleted_at, 'infinity') = 'infinity');
  end if;
  return query
    select coalesce(extract(epoch from clock_timestamp() - min(f.numbered_at)), 0)::double precision,
      coalesce(array_agg(distinct w.tenant_id), '{}')
    from unnest(ids) as i (id)
    join webhook_endpoints w on w.id = any (array[i.id])
    join tenants t on t.id = any (array[w.tenant_id]) and t.status in ('active', 'suspended')
    join endpoint_reach r on r.id = any (array[w.id])
    cross join lateral (
      select x.numbered_at from feed x where x.tenant_id = w.tenant_id and x.last_seq > r.matched_to
      order by x.last_seq limit 1
    ) f;
end $$;

grant execute on function oldest_unmatched(uuid[]) to despatch_worker;
