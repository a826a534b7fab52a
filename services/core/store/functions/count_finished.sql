-- Counts messages that left the backlog (sent, unknown or terminal), and messages that were scheduled and no longer are
-- (`of_unscheduled`). Each array names a tenant once for each of its messages. `of_resumed`: tenants of messages that return to
-- the backlog.
create or replace function count_finished(tenants uuid[], of_unscheduled uuid[] default null, of_resumed uuid[] default null) returns void
language plpgsql set search_path = despatch, pg_temp as $$
begin
  perform lock_counters('finished', array(select distinct t.id from unnest(tenants || of_unscheduled || of_resumed) as t (id)));
  with counted as materialized (
    select t.id, p.slot, coalesce(p.finished, 0) + t.n as finished, coalesce(p.unscheduled, 0) + t.begun as unscheduled
    from (
      select x.id, sum(x.n)::bigint as n, sum(x.begun)::bigint as begun from (
        select f.id, 1 as n, 0 as begun from unnest(tenants) as f (id)
        union all select u.id, 0, 1 from unnest(of_unscheduled) as u (id)
        union all select r.id, -1, 0 from unnest(of_resumed) as r (id)
      ) x group by x.id
    ) t
    left join lateral (
      select * from tenant_progress y where y.tenant_id = t.id order by y.slot desc limit 1
    ) p on true
  ), kept as (
    update tenant_progress p set finished = c.finished, unscheduled = c.unscheduled,
      slot = next_slot(p.slot, p.uses), uses = next_uses(p.uses)
    from counted c where p.tenant_id = any (array[c.id]) and p.slot = any (array[c.slot])
  )
  insert into tenant_progress (tenant_id, uses, finished, unscheduled)
  select c.id, 1, c.finished, c.unscheduled from counted c where c.slot is null;
end $$;
