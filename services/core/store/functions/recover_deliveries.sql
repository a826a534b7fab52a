-- Makes all events due again that an endpoint was sent since `since`, and before `until` (null: until now), and whose delivery
-- has neither succeeded nor is due: at most `most`, and for at most `budget_ms`. `next_since`: where to continue, null if no more
-- events are left. Skips events that were called for 1,000 times (`redeliver_event`). A delivery that a worker has claimed counts
-- as due.
create or replace function recover_deliveries(of_tenant uuid, of_endpoint uuid, since timestamptz, until timestamptz, most integer,
  budget_ms integer)
returns table (recovered integer, next_since timestamptz)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
declare
  ends_at timestamptz := clock_timestamp() + make_interval(secs => budget_ms / 1000.0);
  run record;
  made integer;
begin
  recovered := 0;
  -- A transaction that deletes the endpoint waits for this lock, and then finds the rows stored here.
  perform from webhook_endpoints w where w.id = of_endpoint and w.tenant_id = of_tenant for key share;
  for run in
    select f.first_seq, f.last_seq, f.purge_on, f.matched_at from endpoint_feed f
    where f.endpoint_id = of_endpoint and f.tenant_id = of_tenant and of_tenant = current_tenant()
      and f.last_seq >= (select x.last_seq from endpoint_feed x where x.endpoint_id = of_endpoint and x.matched_at >= since
        order by x.matched_at, x.last_seq limit 1)
    order by f.last_seq
  loop
    exit when run.matched_at >= until;
    if clock_timestamp() > ends_at then
      next_since := run.matched_at;
      exit;
    end if;
    -- One statement, and so one snapshot: a delivery that a worker holds or puts back is seen as either due or done.
    insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, attempts, manual, due_at)
    select of_endpoint, of_tenant, s.seq, s.seq, run.purge_on, a.attempts, true, clock_timestamp()
    from generate_series(run.first_seq, run.last_seq) as s (seq)
    cross join lateral (
      select coalesce(max(x.attempt), 0) as attempts, coalesce(bool_or(x.succeeded), false) as succeeded from delivery_attempts x
      where x.endpoint_id = of_endpoint and x.seq = s.seq and x.purge_on = run.purge_on) a
    where not a.succeeded and a.attempts < 1000 and not exists (select from due_deliveries d
      where d.endpoint_id = of_endpoint and d.first_seq between s.seq - 99 and s.seq and d.last_seq >= s.seq)
    order by s.seq limit most - recovered;
    get diagnostics made = row_count;
    recovered := recovered + made;
    if recovered >= most then
      next_since := run.matched_at;
      exit;
    end if;
  end loop;
  return next;
end $$;

grant execute on function recover_deliveries(uuid, uuid, timestamptz, timestamptz, integer, integer) to despatch_api;
