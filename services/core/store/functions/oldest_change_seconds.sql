-- Returns how long the oldest committed event, or one nearly as old, has waited to be numbered; 0 if none waits.
create or replace function oldest_change_seconds() returns double precision
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  with before as (
    select * from feed_passes p order by p.id desc limit 1
  )
  select coalesce(extract(epoch from clock_timestamp() - min(o.at)), 0) from before b, lateral (
    (select c.at from changes c
      where c.xid >= pg_snapshot_xmax(b.done)
        and (b.target is null or c.id > b.after_id or not pg_visible_in_snapshot(c.xid, b.target))
      order by c.xid limit 1)
    union all
    select c.at from pg_snapshot_xip(b.done) x (xid) join changes c on c.xid = x.xid
    where b.target is null or c.id > b.after_id or not pg_visible_in_snapshot(c.xid, b.target)
    union all
    select c.at from changes c
    where is_foreign_xid(pg_snapshot_xmax(coalesce(b.target, b.done)))
      and (c.id > b.last_id or not pg_visible_in_snapshot(c.xid, b.done))
      and (b.target is null or c.id > b.after_id or not pg_visible_in_snapshot(c.xid, b.target))
  ) o
$$;

grant execute on function oldest_change_seconds() to despatch_worker;
