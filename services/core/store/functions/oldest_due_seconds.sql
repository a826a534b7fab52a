-- How long the oldest due delivery has waited that a worker should have taken by now; 0 without any. What an endpoint's own state
-- and settings hold back is left out: one that fails, is paused or has asked for time, one of which a claim is under way, as it
-- takes no more or wants its events in order, and the time since one with a rate limit was last called.
create or replace function oldest_due_seconds() returns double precision
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return coalesce((
    with recursive earliest as (
      -- From one endpoint that waits for something to the next one, however much each has: most wait for nothing.
      (select x.endpoint_id, x.due_at from due_deliveries x order by x.endpoint_id, x.due_at limit 1)
      union all
      select n.endpoint_id, n.due_at from earliest e cross join lateral (
        select x.endpoint_id, x.due_at from due_deliveries x where x.endpoint_id > e.endpoint_id order by x.endpoint_id, x.due_at limit 1) n
    )
    select extract(epoch from clock_timestamp() - min(greatest(e.due_at, to_timestamp(k.second))))
    from earliest e
    join webhook_endpoints w on w.id = any (array[e.endpoint_id])
    join tenants t on t.id = any (array[w.tenant_id]) and t.status in ('active', 'suspended')
    left join lateral (
      select r.second from account_rates r where w.rate_limit_per_second is not null and r.account_id = w.id
      order by r.slot desc limit 1
    ) k on true
    where e.due_at <= clock_timestamp() and w.status = 'active' and w.call_at <= clock_timestamp()
      -- Put so that no partial index fits: while the table is small a planner would as soon read the whole of one.
      and coalesce(w.deleted_at, 'infinity') = 'infinity'
      -- A row under a lease is due when that is over, within two minutes.
      and not exists (
        select from due_deliveries c where c.endpoint_id = w.id and c.claim is not null
          and c.due_at > clock_timestamp() and c.due_at < clock_timestamp() + interval '2 minutes')), 0);
end $$;

grant execute on function oldest_due_seconds() to despatch_worker;
