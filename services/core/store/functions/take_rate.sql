-- One call by one subject, for everything that is not a send.
create or replace function take_rate(for_subject uuid, allowed integer)
returns table (passed boolean, remaining integer, retry_after integer)
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  w rate_windows;
  stored_second bigint;
begin
  insert into rate_windows (subject) values (for_subject) on conflict do nothing;
  select * into w from rate_windows where subject = for_subject for update;
  stored_second := w.second;
  w := rate_advance(w, floor(extract(epoch from clock_timestamp()))::bigint);
  if w.total >= allowed then
    if w.second < stored_second then
      update rate_windows r set second = w.second, counts = w.counts where r.subject = for_subject;
    end if;
    return query select false, 0, rate_retry_after(w, allowed);
    return;
  end if;
  w := rate_count(w, 1);
  update rate_windows r set second = w.second, counts = w.counts, total = w.total where r.subject = for_subject;
  return query select true, allowed - w.total, rate_retry_after(w, allowed);
end $$;

grant execute on function take_rate(uuid, integer) to despatch_api;
