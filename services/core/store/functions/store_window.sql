-- Stores a window that was read under the lock of its subject.
create or replace function store_window(w rate_windows) returns void
language plpgsql set search_path = despatch, pg_temp as $$
begin
  if w.uses < uses_per_slot() then
    update rate_windows r set second = w.second, counts = w.counts, total = w.total, uses = r.uses + 1
    where r.subject = w.subject and r.slot = w.slot;
  else
    delete from rate_windows r where r.subject = w.subject and r.slot = w.slot;
    insert into rate_windows (subject, slot, second, counts, total, uses)
    values (w.subject, w.slot + 1, w.second, w.counts, w.total, 1);
  end if;
end $$;
