-- Returns lanes with due messages and their earliest due time, by priority (`due`, with whether the tenant is active and no brake
-- holds the channel, and whether a brake slows it; scheduled messages have a priority three higher), and active tenants with held
-- messages that no brake holds, or whose instant is still to come (`release`). The last row names no lane and has the time of this
-- look.
-- Without `after` all lanes are looked at, in hops from lane to lane over the index, so that a large backlog costs no more than a
-- small one; but dead index entries that an old snapshot still sees are scanned one by one. With `after` no entry before that
-- time is scanned: the look covers lanes of tenants with a backlog, for messages that became due since then, and `older`, lanes
-- known to have messages that were due before: {tenant_id, account_id, due_from}, as for `due_floor`. `release` rows are returned
-- only by a look at all lanes.
create or replace function due_lanes(after timestamptz default null, older json default null)
returns table (task text, tenant_id uuid, account_id uuid, priority smallint, due_at timestamptz, is_active boolean, is_slowed boolean)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  -- If the clock has gone back, the next look starts at the time of this one.
  due_after timestamptz := least(after, at_now);
begin
  if after is null then
    return query
      with recursive hop as (
        (select d.tenant_id, d.account_id, d.priority, d.due_at from live_messages d
          order by d.tenant_id, d.account_id, d.priority, d.due_at limit 1)
        union all
        select n.tenant_id, n.account_id, n.priority, n.due_at from hop h, lateral (
          select d.tenant_id, d.account_id, d.priority, d.due_at from live_messages d
          where (d.tenant_id, d.account_id, d.priority) > (h.tenant_id, h.account_id, h.priority)
          order by d.tenant_id, d.account_id, d.priority, d.due_at limit 1) n
      ), lane as materialized (
        select h.*, t.status = 'active' and b.level is distinct from 'held' as is_active, b.level is not distinct from 'slowed' as is_slowed,
          t.status = 'active' and b.level = 'held' and h.priority >= 3 as is_braked_schedule
        from hop h join tenants t on t.id = h.tenant_id cross join lateral (select brake_of(h.tenant_id, h.account_id) as level) b
      )
      select 'due', l.tenant_id, l.account_id, l.priority, l.due_at, l.is_active, l.is_slowed from lane l where l.due_at <= at_now
      union all
      select distinct 'release', l.tenant_id, null::uuid, null::smallint, null::timestamptz, true, false
      from lane l
      where l.is_active and exists (
          select from live_messages d
          where d.tenant_id = l.tenant_id and d.account_id = l.account_id and d.priority = l.priority and d.due_at = 'infinity')
        or l.is_braked_schedule and exists (select from held_schedule(l.tenant_id, l.account_id, l.priority));
  else
    return query
      select 'due', t.id, a.account_id, p.priority, d.due_at, t.status = 'active' and b.level is distinct from 'held',
        b.level is not distinct from 'slowed'
      from tenants t
      cross join lateral (select x.accepted, x.scheduled from tenant_usage x where x.tenant_id = t.id order by x.slot desc limit 1) u
      left join lateral (
        select x.finished, x.unscheduled from tenant_progress x where x.tenant_id = t.id order by x.slot desc limit 1
      ) f on true
      cross join lateral (
        select x.id as account_id from provider_accounts x where x.tenant_id = t.id and x.emptied_at is null
        -- The lane of simulators.
        union all select '00000000-0000-0000-0000-000000000000'
      ) a
      cross join (values (0::smallint), (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint)) as p (priority)
      cross join lateral (
        select x.due_at from live_messages x
        where x.tenant_id = t.id and x.account_id = a.account_id and x.priority = p.priority
          and x.due_at >= due_after and x.due_at <= at_now
        order by x.due_at limit 1
      ) d
      cross join lateral (select brake_of(t.id, a.account_id) as level) b
      where u.accepted > coalesce(f.finished, 0) and (p.priority < 3 or u.scheduled > coalesce(f.unscheduled, 0))
      union all
      select 'due', o.tenant_id, o.account_id, p.priority, d.due_at, t.status = 'active' and b.level is distinct from 'held',
        b.level is not distinct from 'slowed'
      from json_to_recordset(older) as o (tenant_id uuid, account_id uuid, due_from float8[])
      join tenants t on t.id = o.tenant_id
      cross join (values (0::smallint), (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint)) as p (priority)
      cross join lateral (
        select x.due_at from live_messages x
        where x.tenant_id = o.tenant_id and x.account_id = o.account_id and x.priority = p.priority
          and x.due_at >= due_floor(o.due_from, p.priority) and x.due_at <= at_now
        order by x.due_at limit 1
      ) d
      cross join lateral (select brake_of(o.tenant_id, o.account_id) as level) b;
  end if;
  return query select 'looked', null::uuid, null::uuid, null::smallint, at_now, null::boolean, null::boolean;
end $$;

grant execute on function due_lanes(timestamptz, json) to despatch_worker;
