-- Returns how long the oldest committed move of messages, or one nearly as old, has waited to be counted (`count_usage`); 0 if none
-- waits. As a pass does, it begins at the oldest transaction that the previous pass could not see.
create or replace function oldest_usage_seconds() returns double precision
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select coalesce((
    select greatest(0, extract(epoch from clock_timestamp() - m.at)) from usage_moves m
    where m.xid >= (
      select case when is_foreign_xid(p.from_xid) then '0'::xid8 else p.from_xid end
      from usage_passes p order by p.id desc limit 1)
    order by m.xid limit 1), 0)
$$;

grant execute on function oldest_usage_seconds() to despatch_worker;
