-- Messages accepted and not finished, of all tenants that may send: those of a suspended one are held, and no worker can do
-- anything about them. Those that wait for the instant that their sender named are `scheduled`, and no backlog.
create or replace function backlog_totals() returns table (backlog bigint, scheduled bigint)
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
  select coalesce(sum(u.accepted - coalesce(p.finished, 0) - w.scheduled), 0)::bigint, coalesce(sum(w.scheduled), 0)::bigint
  from tenants t
  cross join lateral (select x.accepted, x.scheduled from tenant_usage x where x.tenant_id = t.id order by x.slot desc limit 1) u
  left join lateral (select x.finished, x.unscheduled from tenant_progress x where x.tenant_id = t.id order by x.slot desc limit 1) p on true
  cross join lateral (select u.scheduled - coalesce(p.unscheduled, 0) as scheduled) w
  where t.status = 'active'
$$;

grant execute on function backlog_totals() to despatch_worker;
