-- Returns how long the oldest due delivery has waited that a worker should have taken by now; 0 if there is none. Waits that an
-- endpoint's own state and settings cause do not count: of an endpoint that fails, is paused or asked for a pause, of one with a
-- claim under way (it takes no more, or wants its events in order), and the time since the last call of one with a rate limit.
create or replace function oldest_due_seconds() returns double precision
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return coalesce((
    with recursive earliest as (
      -- A recursive skip scan over the endpoints with waiting rows, however many rows each has; most endpoints have none.
      (select x.endpoint_id, x.due_at from due_deliveries x order by x.endpoint_id, x.due_at limit 1)
      union all
      select n.endpoint_id, n.due_at from earliest e cross join lateral (
        select x.endpoint_id, x.due_at from due_deliveries x where x.endpoint_id > e.endpoint_id order by x.endpoint_id, x.due_at limit 1) n
    )
    select extract(epoch from clock_timestamp() - min(greatest(e.due_at, to_timestamp(k.tick::float8 / ticks_per_second()))))
    from earliest e
    join webhook_endpoints w on w.id = any (array[e.endpoint_id])
    join tenants t on t.id = any (array[w.tenant_id]) and t.status in ('active', 'suspended')
    left join lateral (
      select r.ticks[cardinality(r.ticks)] as tick from account_rates r where w.rate_limit_per_second is not null and r.account_id = w.id
      order by r.slot desc limit 1
    ) k on true
    where e.due_at <= clock_timestamp() and w.status = 'active' and w.call_at <= clock_timestamp()
      -- Written so that no partial index matches: while the table is small the planner would scan such an index as a whole.
      and coalesce(w.deleted_at, 'infinity') = 'infinity'
      -- A leased row's `due_at` is the end of the lease, within two minutes.
      and not exists (
        select from due_deliveries c where c.endpoint_id = w.id and c.claim is not null
          and c.due_at > clock_timestamp() and c.due_at < clock_timestamp() + interval '2 minutes')), 0);
end $$;

grant execute on function oldest_due_seconds() to despatch_worker;
