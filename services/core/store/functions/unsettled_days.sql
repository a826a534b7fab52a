-- Returns the purge days that have come and whose records are still needed, in order:
-- - Days of which messages are live: their calls were under way when all workers stopped, or end right now. No message can be
--   settled without its record: workers settle them when their leases are over, or end them (`end_outlived`). No message of such a
--   day becomes live: `accept` refuses its day, and `take_silent` lets no sent message go on. Reads live messages up to the last
--   number of these days only: `live_messages` has no index by day, and those of later days may be millions.
-- - Days of which upkeep has ended messages within four minutes, so that endpoints and readers of the feed get these events.
-- - Days of which messages have ended and are not counted, or the events are not numbered: `count_usage` reads the message, and
--   every reader of an event its row. Only what ended live messages, or came before: receipts may arrive all the time, and must
--   not keep a day for good.
create or replace function unsettled_days() returns setof date
language sql stable security definer set search_path = despatch, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select l.purge_on from live_messages l
  where l.purge_on <= (now() at time zone 'UTC')::date
    and l.seq <= (select m.seq from messages m where m.purge_on <= (now() at time zone 'UTC')::date order by m.seq desc limit 1)
  union
  select o.purge_on from outlived_days o where o.ended_at > now() - interval '4 minutes'
  union
  select u.purge_on from usage_moves u
  where u.was = 'in_progress' and u.purge_on <= (now() at time zone 'UTC')::date and u.xid >= (
    select case when is_foreign_xid(p.from_xid) then '0'::xid8 else p.from_xid end
    from usage_passes p order by p.id desc limit 1)
  union
  select e.day from (
    select c.* from (select * from feed_passes p order by p.id desc limit 1) b, lateral (
      select x.* from changes x where x.xid >= pg_snapshot_xmax(b.done)
      union all
      select x.* from pg_snapshot_xip(b.done) r (xid) join changes x on x.xid = r.xid
      union all
      select x.* from changes x
      where is_foreign_xid(pg_snapshot_xmax(coalesce(b.target, b.done)))
        and (x.id > b.last_id or not pg_visible_in_snapshot(x.xid, b.done))
    ) c
    where b.target is null or c.id > b.after_id or not pg_visible_in_snapshot(c.xid, b.target)
  ) c, unnest(c.purge_ons, c.numbers) as e (day, number)
  where e.day <= (now() at time zone 'UTC')::date
    and (e.number < 0 or exists (select from outlived_days o where o.purge_on = e.day and o.ended_at >= c.at))
  order by 1
$$;

grant execute on function unsettled_days() to despatch_worker;
