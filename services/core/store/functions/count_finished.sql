-- Counts messages that left the backlog (sent, unknown or terminal), and those that were scheduled and no longer are. Each
-- tenant is named once for each of its messages.
create or replace function count_finished(tenants uuid[], of_unscheduled uuid[] default null) returns void
language plpgsql set search_path = despatch, pg_temp as $$
begin
  perform lock_counters('finished', array(select distinct t.id from unnest(tenants || of_unscheduled) as t (id)));
  with counted as materialized (
    select t.id, t.n, p.slot, p.uses, coalesce(p.finished, 0) + t.n as finished, coalesce(p.unscheduled, 0) + t.begun as unscheduled
    from (
      select x.id, count(*) filter (where x.has_finished) as n, count(*) filter (where not x.has_finished) as begun from (
        select f.id, true as has_finished from unnest(tenants) as f (id)
        union all select u.id, false from unnest(of_unscheduled) as u (id)
      ) x group by x.id
    ) t
    left join lateral (
      select * from tenant_progress y where y.tenant_id = t.id order by y.slot desc limit 1
    ) p on true
  ), kept as (
    update tenant_progress p set finished = c.finished, unscheduled = c.unscheduled, uses = p.uses + 1
    from counted c where p.tenant_id = any (array[c.id]) and p.slot = any (array[c.slot]) and c.uses < uses_per_slot()
  ), used_up as (
    delete from tenant_progress p using counted c where p.tenant_id = any (array[c.id]) and p.slot = any (array[c.slot]) and c.uses >= uses_per_slot()
  )
  insert into tenant_progress (tenant_id, slot, uses, finished, unscheduled)
  select c.id, coalesce(c.slot, 0) + 1, 1, c.finished, c.unscheduled from counted c where coalesce(c.uses, uses_per_slot()) >= uses_per_slot();
end $$;
