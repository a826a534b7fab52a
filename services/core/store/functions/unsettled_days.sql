-- Returns the purge days that have come and of which messages are still live: their calls were under way when all workers stopped,
-- or end right now. Their records are kept, because no message can be settled without its record: workers settle them when their
-- leases are over, or end them (`end_outlived`). No message of such a day becomes live: `accept` refuses its day, and `take_silent`
-- lets no sent message go on. Reads live messages up to the last number of these days only: `live_messages` has no index by day,
-- and those of later days may be millions.
create or replace function unsettled_days() returns setof date
language sql stable security definer set search_path = despatch, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select distinct l.purge_on from live_messages l
  where l.purge_on <= (now() at time zone 'UTC')::date
    and l.seq <= (select m.seq from messages m where m.purge_on <= (now() at time zone 'UTC')::date order by m.seq desc limit 1)
  order by 1
$$;

grant execute on function unsettled_days() to despatch_worker;
