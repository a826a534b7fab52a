-- Counts accepted and unfinished messages of all active tenants; the messages of a suspended tenant are held, and no worker can
-- send them. `scheduled`: messages that wait for the instant that their sender named. `braked`: messages behind a brake, which a
-- person lifts. Neither is backlog. The counters do not distinguish channels: for a tenant with a brake the messages of its other
-- channels are counted, up to 100,000, and the rest of its backlog is `braked`. Usually few messages wait in the other channels,
-- whereas millions may wait behind the brake.
create or replace function message_totals() returns table (backlog bigint, scheduled bigint, braked bigint)
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
  select coalesce(sum(w.waiting - b.braked), 0)::bigint, coalesce(sum(s.scheduled), 0)::bigint, coalesce(sum(b.braked), 0)::bigint
  from tenants t
  cross join lateral (select x.accepted, x.scheduled from tenant_usage x where x.tenant_id = t.id order by x.slot desc limit 1) u
  left join lateral (select x.finished, x.unscheduled from tenant_progress x where x.tenant_id = t.id order by x.slot desc limit 1) p on true
  cross join lateral (select u.scheduled - coalesce(p.unscheduled, 0) as scheduled) s
  cross join lateral (select u.accepted - coalesce(p.finished, 0) - s.scheduled as waiting) w
  -- Few tenants have a brake: all brakes are read once instead of one lookup per tenant.
  left join (select distinct x.tenant_id from brakes x where x.level is not null) h on h.tenant_id = t.id
  cross join lateral (
    select case when h.tenant_id is null then 0
      else greatest(0, w.waiting - (
        select count(*) from (
          select from (
            select a.id from provider_accounts a where a.tenant_id = t.id and a.emptied_at is null and brake_of(t.id, a.id) is null
            -- The account id of simulators.
            union all select '00000000-0000-0000-0000-000000000000'
          ) a,
          (values (0::smallint), (1::smallint), (2::smallint)) as q (priority),
          lateral (
            select from live_messages l where l.tenant_id = t.id and l.account_id = a.id and l.priority = q.priority limit 100000
          ) x limit 100000
        ) y)) end as braked
  ) b
  where t.status = 'active'
$$;

grant execute on function message_totals() to despatch_worker;
