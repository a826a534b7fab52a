-- Counts calls of one subject against its rate, for all requests that are not sends. As many pass as the rate leaves free.
create or replace function take_rate(for_subject uuid, allowed integer, calls integer)
returns table (passed integer, remaining integer, retry_after integer)
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  w rate_windows;
  stored_second bigint;
begin
  perform lock_counters('calls', array[for_subject]);
  select * into w from rate_windows r where r.subject = for_subject order by r.slot desc limit 1;
  if w.subject is null then
    insert into rate_windows (subject) values (for_subject) returning * into w;
  end if;
  stored_second := w.second;
  w := rate_advance(w, floor(extract(epoch from clock_timestamp()))::bigint);
  passed := least(calls, greatest(allowed - w.total, 0));
  if passed > 0 then
    w := rate_count(w, passed);
  end if;
  if passed > 0 or w.second < stored_second then
    perform store_window(w);
  end if;
  return query select passed, greatest(allowed - w.total, 0), rate_retry_after(w, allowed);
end $$;

grant execute on function take_rate(uuid, integer, integer) to despatch_api;
